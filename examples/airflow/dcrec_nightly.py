"""A night of dcrec-spark in Airflow 3: put this file into the folder of DAGs.

The environment of Airflow's workers says what runs a night, as a shell would have it:

    DCREC_COMMAND="dcrec retrain --config /srv/recommender/nightly.yaml"
    DCREC_COMMAND="spark-submit --master spark://host:7077 ... jobs/retrain.py --config /srv/recommender/nightly.yaml"

DCREC_RETRY_SECONDS is the time from one try to the next, 300 by default.

A run is idempotent for its readers, so a retry, a cleared task and a backfill of a past date are safe.
"""

import os
import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Exit codes of the job, see docs/how-to/schedule.md: interrupted, a full disk, a service that did not answer.
AGAIN = {6, 7, 8}
UNEXPECTED = 1
BETWEEN_TRIES = timedelta(seconds=float(os.environ.get("DCREC_RETRY_SECONDS", "300")))


def is_worth_a_retry(code: int, attempt: int) -> bool:
    """Whether the same command may end better; a process that was killed goes on from its last checkpoint.

    Settings (2), data (3), the audit (4) and another publisher (5) stay as they are.
    """
    killed = code < 0 or code > 128
    return code in AGAIN or killed or (code == UNEXPECTED and attempt == 1)


class Night(BaseOperator):
    """Runs the command; what cannot get better by a retry fails at once."""

    template_fields = ("command",)

    def __init__(self, *, command: Sequence[str], **others: Any) -> None:
        super().__init__(**others)
        self.command = command
        self._process: SubprocessHook | None = None

    def execute(self, context: Any) -> None:
        """Run it, with its output in the task's log."""
        self._process = SubprocessHook()
        code = self._process.run_command(list(self.command)).exit_code
        if code == 0:
            return
        again = is_worth_a_retry(code, context["ti"].try_number)
        raise (AirflowException if again else AirflowFailException)(f"the job ended with {code}; its log says why")

    def on_kill(self) -> None:
        """Let the job clear up: it ends with 6, and nothing is published."""
        if self._process is not None:
            self._process.send_sigterm()


with DAG(
    "dcrec_nightly",
    schedule="15 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": BETWEEN_TRIES, "execution_timeout": timedelta(hours=6)},
) as dag:
    Night(
        task_id="retrain",
        command=[
            *shlex.split(os.environ.get("DCREC_COMMAND", "dcrec retrain --config /srv/recommender/nightly.yaml")),
            # A run for a past day learns from no later rating, if input.columns.timestamp is set.
            "--set",
            "run.run_date={{ (dag_run.logical_date or dag_run.run_after) | ds }}",
        ],
    )
