"""The order of the steps of publishing, with a sink that only notes what is asked of it."""

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame

from dcrec_spark.errors import AuditError, ConflictError, DcrecError
from dcrec_spark.publish.protocol import Record, Save, publish


class Noting:
    """A sink for one run; ``failing`` names the step that raises ``error``."""

    def __init__(self, failing: str = "", error: Exception | None = None) -> None:
        self.steps: list[str] = []
        self.failing, self.error = failing, error

    def note(self, step: str) -> None:
        self.steps.append(step)
        if step == self.failing and self.error is not None:
            raise self.error

    def stage(self, run_id: str, tables: Mapping[str, DataFrame], folders: Mapping[str, Save]) -> str:
        self.note("stage")
        return run_id

    def commit(self, staged: str, record: Record) -> str:
        self.note("commit")
        return f"{staged}: {record['status']}"

    def verify(self, staged: str) -> None:
        self.note("verify")

    def discard(self, staged: str) -> None:
        self.note("discard")


def published(sink: Noting) -> str:
    return publish(sink, "r1", {}, lambda _: {"status": "done"}, lambda _: sink.note("audit"))


def test_a_run_is_staged_audited_committed_and_verified() -> None:
    sink = Noting()
    assert published(sink) == "r1: done"
    assert sink.steps == ["stage", "audit", "commit", "verify"]


@pytest.mark.parametrize(
    ("failing", "error", "steps"),
    [
        ("stage", DcrecError("disk full"), ["stage"]),
        ("audit", AuditError("an item twice"), ["stage", "audit", "discard"]),
        ("commit", ConflictError("another run"), ["stage", "audit", "commit", "discard"]),
        ("verify", DcrecError("a file is changed"), ["stage", "audit", "commit", "verify"]),
    ],
)
def test_what_fails_ends_it_and_nothing_staged_stays(failing: str, error: Exception, steps: list[str]) -> None:
    sink = Noting(failing, error)
    with pytest.raises(type(error), match=str(error)):
        published(sink)
    assert sink.steps == steps
