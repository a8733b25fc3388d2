"""A run that is interrupted goes on where it was when it is run again; other settings or ratings begin anew."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.engine.ascent import Past
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.jobs import fit_checkpoints
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.fit_checkpoints import PREFIX, StoredCheckpoints
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.models.fitting.stages import KeptSweep
from dcrec_spark.publish.manifest import sealed
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.staging import LEASE
from tests.faults.damage import HOW, damaged, flipped
from tests.jobs.job import assert_same_lists, names_in, publish, record_of, run_retrain, small_job

pytestmark = pytest.mark.job

FILES = LocalFiles()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return small_job(tmp_path, 12, 10)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(Retrain, small_job(tmp_path_factory.mktemp("whole"), 12, 10))


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of one that was stopped in the last sweep of its second stage."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patched:
        interrupt(small_job(folder, 12, 10), patched, "outcome", 3)
    return folder / "out"


def interrupt(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, stage: str, iteration: int) -> None:
    """A run that keeps every sweep, and is stopped at one."""
    listener = Reporter.listener

    def stopping(reporter: Reporter, totals: dict[str, int]) -> Listener:
        def listen(*made: Any) -> None:
            if made[:2] == (stage, iteration):
                raise KeyboardInterrupt("stopped by SIGTERM")
            listener(reporter, totals)(*made)

        return listen

    with monkeypatch.context() as patch:
        patch.setattr(StoredCheckpoints, "is_due", lambda *_: True)
        patch.setattr(Reporter, "listener", stopping)
        run_retrain(settings, code=6)


# Which checkpoints are damaged, and with how many iterations each stage goes on; 4 and 3 are all.
DAMAGED: dict[str, tuple[list[str], dict[str, int]]] = {
    "none": ([], {"exposure": 4, "outcome": 2}),
    "the last of both stages": (["exposure-4", "outcome-2"], {"exposure": 3, "outcome": 1}),
    "all": (["exposure-4", "exposure-3", "outcome-2", "outcome-1"], {}),
}


@pytest.mark.parametrize("which", DAMAGED)
def test_a_run_goes_on_from_the_last_checkpoint_that_is_whole_and_publishes_the_same(
    which: str, settings: dict[str, Any], whole: Path, stopped: Path, tmp_path: Path
) -> None:
    names, gone_on = DAMAGED[which]
    shutil.copytree(stopped, tmp_path / "out")
    left = [path.name for path in (tmp_path / "out").glob(".fit-*") if not path.name.endswith(LEASE)]
    assert len(left) == 1
    for name in names:
        part = next(tmp_path.glob(f"out/.fit-*/{name}/items/*.parquet"))
        part.write_bytes(flipped(part.read_bytes(), part.stat().st_size // 2))

    run = publish(Retrain, settings)

    record, expected = record_of(run), record_of(whole)
    assert record["model_version"] == expected["model_version"]
    for stage in ("exposure", "outcome"):
        assert record["objectives"][stage] == pytest.approx(expected["objectives"][stage], rel=1e-10)
    said = [text for text in record["warnings"] if "interrupted run" in text]
    assert [text.rpartition("/.fit-")[2].split("/")[1] for text in said if "is damaged, and not used" in text] == names
    assert [text for text in said if "resuming" in text] == [
        f"{stage}: resuming an interrupted run after {sweeps} iterations" for stage, sweeps in gone_on.items()
    ]
    assert_same_lists(run, whole)
    assert names_in(tmp_path / "out") == {"CURRENT", run.name}


@pytest.mark.usefixtures("spark")
def test_other_settings_begin_anew_and_say_so(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(settings, monkeypatch, "exposure", 3)
    run = publish(Retrain, {**settings, "outcome.alpha": 1, "model.checkpoint_seconds": 0})
    assert [text for text in record_of(run)["warnings"] if "starts from scratch" in text] != []
    assert names_in(tmp_path / "out") == {"CURRENT", run.name}


@pytest.mark.parametrize(
    "content",
    [b"{", sealed({}), sealed({"past": 1, "tables": {}}), b'{"past": {"objective": [1]}, "shared": {}, "tables": {}}'],
)
def test_a_damaged_checkpoint_is_named_and_not_used(content: bytes, tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "exposure-7").mkdir()
    (tmp_path / "exposure-7" / "sweep.json").write_bytes(content)
    run: Any = SimpleNamespace(warnings=[])
    assert StoredCheckpoints(spark, FILES, str(tmp_path), 1, run).kept("exposure") is None
    assert "exposure: a checkpoint of an interrupted run is damaged, and not used: " in run.warnings[0]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("file", ["sweep.json", "items/part-00000*.parquet"])
def test_a_checkpoint_that_is_not_as_it_was_written_is_not_used(
    file: str, how: str, tmp_path: Path, spark: SparkSession
) -> None:
    run: Any = SimpleNamespace(warnings=[])
    checkpoints = StoredCheckpoints(spark, FILES, str(tmp_path), 1, run)
    rows = spark.createDataFrame([("i", [0.5, 0.25])], "id string, factors array<double>")
    checkpoints.keep("outcome", KeptSweep(Past([3.0, 2.0]), {"intercept": 0.1}, {"items": rows}))
    (there,) = (tmp_path / "outcome-2").glob(file)
    with damaged(there, how):
        assert checkpoints.kept("outcome") is None
    assert "outcome: a checkpoint of an interrupted run is damaged, and not used: " in run.warnings[0]
    assert str(tmp_path / "outcome-2") in run.warnings[0]
    kept = checkpoints.kept("outcome")
    assert (kept.past.objective, kept.shared) == ([3.0, 2.0], {"intercept": 0.1})
    assert kept.tables["items"].collect() == rows.collect()


def test_a_fit_that_is_at_work_is_left_alone(tmp_path: Path) -> None:
    for name in ("dead", "living", "mine"):
        (tmp_path / f"{PREFIX}{name}").mkdir()
    run: Any = SimpleNamespace(warnings=[])
    with FILES.lock(f"{tmp_path}/{PREFIX}living{LEASE}"):
        fit_checkpoints._remove_others(FILES, str(tmp_path), f"{PREFIX}mine", run)
    assert {path.name for path in tmp_path.iterdir()} == {".fit-living", ".fit-living.lease", ".fit-mine"}
    assert len(run.warnings) == 1


def test_the_end_of_a_stage_is_kept_sooner_than_other_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(fit_checkpoints.time, "monotonic", lambda: clock[-1])
    spark, run = object(), SimpleNamespace(warnings=[])
    checkpoints = StoredCheckpoints(spark, FILES, "/none", 60, run)  # type: ignore[arg-type]
    for now, due, due_at_end in ((105.0, False, False), (107.0, False, True), (161.0, True, True)):
        clock.append(now)
        assert (checkpoints.is_due("exposure", False), checkpoints.is_due("exposure", True)) == (due, due_at_end)
