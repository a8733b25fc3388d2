"""Readers find the current run by its output directory, without guessing what CURRENT means."""

from pathlib import Path

import pytest

from dcrec_spark import PublishedRun, current_run
from dcrec_spark.errors import DataError
from tests.publish.test_parquet import commit, stage_by_hand


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output directory with two published runs, of which the second is current."""
    for run_id in ("r1", "r2"):
        commit(stage_by_hand(tmp_path, run_id), {"run_id": run_id, "status": "published"})
    return tmp_path


def test_the_current_run_has_a_name_a_directory_and_a_record(output: Path) -> None:
    run = current_run(str(output))
    assert run == PublishedRun("r2", f"file://{output}/run_id=r2", {"run_id": "r2", "status": "published"})
    (output / "CURRENT").write_text("r1", encoding="utf-8")
    assert current_run(str(output)).run_id == "r1"


def test_what_is_missing_is_named(output: Path) -> None:
    (output / "run_id=r2" / "manifest.json").unlink()
    (output / "run_id=r2" / "run.json").unlink()
    with pytest.raises(DataError, match=r"run r2 under .* holds no run\.json"):
        current_run(str(output))
    (output / "CURRENT").unlink()
    with pytest.raises(DataError, match=r"nothing is published under .* no CURRENT"):
        current_run(str(output))
    (output / "CURRENT").mkdir()
    with pytest.raises(DataError, match=r"CURRENT cannot be read .*restore it"):
        current_run(str(output))


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\x00", "missing", "a directory"])
def test_a_damaged_record_is_named(output: Path, content: bytes | str) -> None:
    record = output / "run_id=r2" / "run.json"
    record.unlink()
    if isinstance(content, bytes):
        record.write_bytes(content)
    elif content == "a directory":
        record.mkdir()
    with pytest.raises(DataError, match=r"run_id=r2/run\.json is damaged: .*restore it"):
        current_run(str(output))
