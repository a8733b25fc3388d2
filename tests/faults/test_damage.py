"""Files of a published run that are truncated, missing, or have a byte flipped are named before they are used."""

from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.errors import DataError
from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.manifest import MANIFEST, RECORD
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.parquet import verify
from tests.faults.damage import HOW, damaged, flipped
from tests.publish.test_parquet import commit, stage_by_hand

TABLE = "recommendations/part-0.parquet"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    for run_id in ("r1", "r2"):
        commit(stage_by_hand(tmp_path, run_id), {"run_id": run_id, "loss": [0.1, float("nan")], "rows": {"items": 5}})
    return tmp_path


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("file", [TABLE, RECORD, MANIFEST])
def test_a_damaged_file_of_a_run_is_named(file: str, how: str, output: Path) -> None:
    """By whoever checks the run, and by a rollback, which leaves readers where they were."""
    with damaged(output / "run_id=r1" / file, how):
        with pytest.raises(DataError, match=file):
            verify(str(output / "run_id=r1"))
        with pytest.raises(DataError, match=file):
            open_output(str(output)).restore("r1")
        assert current_run(str(output)).run_id == "r2"
    verify(str(output / "run_id=r1"))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("file", [RECORD, MANIFEST])
def test_a_damaged_record_is_not_read(file: str, how: str, output: Path) -> None:
    """Nor one whose manifest is damaged: without it a changed record would look like any other."""
    with damaged(output / "run_id=r2" / file, how), pytest.raises(DataError, match=file):
        current_run(str(output))


def test_no_byte_of_a_manifest_or_a_record_changes_unseen(output: Path, record_property: Any) -> None:
    """Blanks between the parts of a manifest apart, which say nothing."""
    run = output / "run_id=r1"
    record_property("tried", sum((run / name).stat().st_size for name in (MANIFEST, RECORD)))
    for name in (MANIFEST, RECORD):
        file, unseen = run / name, []
        whole = file.read_bytes()
        for at in range(len(whole)):
            file.write_bytes(flipped(whole, at))
            try:
                verify(str(run))
            except DataError:
                continue
            unseen.append(at)
        file.write_bytes(whole)
        assert all(whole[at : at + 1].isspace() for at in unseen), (name, unseen)
        assert unseen == [] or name == MANIFEST


def test_a_damaged_pointer_names_no_run_or_the_same(output: Path, record_property: Any) -> None:
    pointer = output / "CURRENT"
    whole = pointer.read_bytes()
    record_property("tried", 2 * len(whole) - 1)
    for at in range(len(whole) - 1):
        pointer.write_bytes(flipped(whole, at))
        with pytest.raises(DataError, match=r"CURRENT|holds no run\.json"):
            current_run(str(output))
    for length in range(len(whole) - 1):
        pointer.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"CURRENT|holds no run\.json"):
            current_run(str(output))
    pointer.write_bytes(whole[:-1])
    assert current_run(str(output)).run_id == "r2"
