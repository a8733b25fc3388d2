"""What an MLflow server is told of a run: settings, figures, how it ended.

Nothing of this may fail a run, or hold it up for long. Each message has a time limit; after the first that fails there
are no more, and the run warns of it. Figures are told before the commit, so that a warning is in the run's own record;
after the commit there is only how it ended.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import structlog

from dcrec_spark.config import mask_secrets
from dcrec_spark.errors import MissingExtraError, require_extra
from dcrec_spark.jobs.run_record import Run

SECONDS = 30.0
_log = structlog.get_logger()
# MLflow tries more often and for longer by default, sends telemetry, and prints among the lines of the job.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# What MLflow takes in one request: parameters, metrics, letters of a value.
_PARAMS, _METRICS, _LETTERS = 100, 1000, 500
ReturnT = TypeVar("ReturnT")


class Figure(NamedTuple):
    """A metric of a run; step : the iteration, where there are several."""

    name: str
    value: float
    step: int = 0


class _Silence(Exception):
    """Nothing came back in time."""


class Tracker:
    """Tells an MLflow server of one run; does nothing without its address.

    Parameters
    ----------
    run : Run
        The record. Its settings ``run.mlflow_uri`` and ``run.mlflow_experiment`` say where to.
    seconds : float
        Time for each message.
    """

    def __init__(self, run: Run, seconds: float = SECONDS) -> None:
        self._run, self._seconds = run, seconds
        self._uri = run.config.run.mlflow_uri
        self._client: Any = None
        self._id: str | None = None

    def begin(self) -> None:
        """Open a run there, with the settings."""
        if self._uri is not None:
            self._try(self._open, self._run.warnings)

    def tell(self) -> None:
        """Send the figures that are known before the commit; a failure is a warning of the run."""
        if self._id is not None:
            self._try(lambda: self._send(figures_of(self._run.facts("published", 0, None))), self._run.warnings)

    def end(self, published: bool) -> None:
        """Say how it ended; too late for the record, so a failure is in the log alone."""
        if self._id is not None:
            self._try(lambda: self._client.set_terminated(self._id, "FINISHED" if published else "FAILED"), [])

    def _open(self) -> None:
        require_extra("mlflow")
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient
        from mlflow.entities import Param

        run, client = self._run, MlflowClient(tracking_uri=self._uri)
        name = run.config.run.mlflow_experiment
        existing = client.get_experiment_by_name(name)
        experiment = client.create_experiment(name) if existing is None else existing.experiment_id
        tags = {"run_id": run.run_id, "job": run.job, "run_date": run.run_date.isoformat()}
        opened = client.create_run(experiment, run_name=run.run_id, tags=tags).info.run_id
        settings = flat(run.facts("running", 0, None)["configuration"])
        for some in _parts(list(settings.items()), _PARAMS):
            client.log_batch(opened, params=[Param(key, value) for key, value in some])
        self._client, self._id = client, opened

    def _send(self, figures: Sequence[Figure]) -> None:
        from mlflow.entities import Metric

        now = int(datetime.now().timestamp() * 1000)
        for some in _parts(figures, _METRICS):
            metrics = [Metric(each.name, float(each.value), now, each.step) for each in some]
            self._client.log_batch(self._id, metrics=metrics)

    def _try(self, message: Callable[[], object], warnings: list[str]) -> None:
        try:
            within(self._seconds, message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._id = None
            reason = (
                str(error) if isinstance(error, MissingExtraError | _Silence) else f"{type(error).__name__}: {error}"
            )
            warning = mask_secrets(f"MLflow (setting run.mlflow_uri) does not have this run: {reason.splitlines()[0]}")
            warnings.append(warning)
            _log.warning(warning)


@contextmanager
def told_how_it_ends(tracker: Tracker) -> Iterator[None]:
    """Open the run there, and close it as the one here ends."""
    tracker.begin()
    try:
        yield
    except BaseException:
        tracker.end(published=False)
        raise
    tracker.end(published=True)


def within(seconds: float, message: Callable[[], ReturnT]) -> ReturnT:
    """Wait so long for the answer of a function; one that does not return is left behind in a thread of its own.

    Raises
    ------
    Exception
        What it raised, or that it was silent.
    """
    answers: Queue[tuple[ReturnT | None, Exception | None]] = Queue()

    def ask() -> None:
        try:
            answers.put((message(), None))
        except Exception as error:  # noqa: BLE001 - raised again below, where it is waited for
            answers.put((None, error))

    Thread(target=ask, name="mlflow", daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        raise _Silence(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Name each setting in full, and write its value as text of the length that MLflow takes."""
    texts: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            texts |= flat(value, f"{prefix}{name}.")
        else:
            texts[_name(f"{prefix}{name}")] = str(value)[:_LETTERS]
    return texts


def figures_of(facts: Mapping[str, Any]) -> list[Figure]:
    """Take the figures of a run from its facts, as run.json has them."""
    audit = facts["audit"]
    values = {
        **{f"count/{name}": count for name, count in facts["counts"].items()},
        **{f"seconds/{step}": seconds for step, seconds in facts["timings"].items()},
        **{f"audit/{verdict['check']}": verdict["found"] for verdict in audit["verdicts"]},
        **{f"lists/{name}": value for name, value in (audit["lists"] or {}).items()},
        "warnings": len(facts["warnings"]),
    }
    if audit["compared"]:
        metric = audit["compared"]["metric"]
        values |= {f"{metric}/{model}": each["value"] for model, each in audit["compared"]["models"].items()}
    single = [Figure(_name(name), value) for name, value in values.items() if value is not None]
    histories = facts["objectives"].items()
    return single + [
        Figure(_name(f"objective/{stage}"), value, step)
        for stage, values_of in histories
        for step, value in enumerate(values_of, 1)
    ]


def _name(text: str) -> str:
    """Keep to the letters that MLflow takes in names: ndcg@10 becomes ndcg_at_10."""
    return re.sub(r"[^\w\-./ ]", "_", text.replace("@", "_at_"))


def _parts(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
