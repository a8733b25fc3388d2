"""The steps of publishing; several places in one run: all staged before the first changes, failures take all back."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConfigError, ConflictError, DcrecError
from dcrec_spark.publish.current import current_run, current_run_id
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.manifest import fingerprint
from dcrec_spark.publish.parquet import Before, ParquetSink, StagedRun
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Audit, Several
from dcrec_spark.publish.warehouse import StagedTables, StoredRun, TableByTable
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.staging import Content, content_of
from tests.steps import at_first


@pytest.mark.parametrize(
    ("failing", "error", "steps"),
    [
        ("none", None, ["stage", "audit", "commit", "verify"]),
        ("stage", DcrecError("disk full"), ["stage"]),
        ("audit", AuditError("an item twice"), ["stage", "audit", "discard"]),
        ("commit", ConflictError("another run"), ["stage", "audit", "commit", "discard"]),
        ("verify", DcrecError("a file is changed"), ["stage", "audit", "commit", "verify"]),
    ],
)
def test_a_run_goes_through_its_steps_until_one_fails(failing: str, error: Exception | None, steps: list[str]) -> None:
    sink = Mock(**{"commit.return_value": "there", f"{failing}.side_effect": error})
    with pytest.raises(type(error), match=str(error)) if error else nullcontext():
        assert publish(sink, "r1", {}, lambda _: {}, sink.audit) == "there"
    assert [name for name, _, _ in sink.mock_calls] == steps


class Rows(NamedTuple):
    """Stands for a DataFrame: so many rows of one run."""

    run_id: str
    count: int = 3
    schema: None = None


class HandMade(ParquetSink):
    """A directory that is staged without Spark."""

    def stage(
        self, run_id: str, tables: Mapping[str, Any], folders: Mapping[str, Any], base: Before | None = None
    ) -> StagedRun:
        path = f"{self.root}/.staging-{run_id}"
        staged = StagedRun(self.files, self.root, run_id, path, (base or self.base()).run_id, {})
        self.add(staged, tables)
        return staged

    def add(self, staged: StagedRun, tables: Mapping[str, Any]) -> None:
        for name, rows in tables.items():
            path = f"{staged.path}/{name}"
            Path(path).mkdir(parents=True)
            pq.write_table(pa.table({"run_id": [rows.run_id] * rows.count}), f"{path}/part-0.parquet")
            staged.tables[name] = fingerprint(self.files, path, rows.count)


def read_rows(uri: str) -> Rows:
    found = pq.read_table(uri.removeprefix("file://"), partitioning=None)["run_id"].to_pylist()
    return Rows(found[0], len(found))


class Shelf(TableByTable):
    """A warehouse in memory: a place is the token of a run; ``log`` tells the steps of all shelves in their order."""

    def __init__(self, kind: str, log: list[str]) -> None:
        super().__init__(kind, 3, None)
        self.kind, self.log = kind, log
        self.rows: dict[str, Rows] = {}
        self.labels: dict[str, str] = {}
        self.failing: Callable[[str], None] = lambda step: None

    def _note(self, step: str) -> None:
        self.failing(step)
        self.log.append(f"{self.kind} {step}")

    def check(self) -> None: ...
    def prepare(self, table: str, rows: Any) -> None: ...
    def prune(self, table: str) -> None: ...
    def close(self) -> None: ...

    def now(self, table: str) -> str | None:
        return self.labels.get(table)

    def write(self, staged: StagedTables, table: str, rows: Any) -> str:
        self._note("write")
        place = f"{table} {staged.token}"
        self.rows[place] = rows
        return place

    def read(self, staged: StagedTables, table: str, schema: Any) -> Any:
        return self.rows[staged.places[table]]

    def show(self, staged: StagedTables, table: str) -> str:
        self._note("show")
        self.labels[table] = staged.places[table]
        return f"{self.kind}/{table}"

    def put_back(self, table: str, place: str | None) -> None:
        self._note("put back")
        self.labels.pop(table)
        if place is not None:
            self.labels[table] = place

    def shown(self, table: str) -> Any:
        return self.rows[self.labels[table]]

    def drop(self, staged: StagedTables, table: str) -> None:
        self._note("drop")
        if self.labels.get(table) != staged.places.get(table):
            self.rows.pop(f"{table} {staged.token}", None)

    def runs(self) -> list[StoredRun]:
        return [StoredRun(self.rows[place].run_id, "", (), (table,)) for table, place in self.labels.items()]

    def restore(self, run_id: str) -> None:
        raise self.unknown_run(run_id)


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def sinks(tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> Several:
    for module in ("several", "warehouse"):
        monkeypatch.setattr(f"dcrec_spark.publish.{module}.content_of", lambda rows: Content(rows.count, rows.run_id))
    reader: Any = SimpleNamespace(read=SimpleNamespace(parquet=read_rows))
    shelves = [Shelf("left", log), Shelf("right", log)]
    made = Several(reader, HandMade(LocalFiles(), str(tmp_path), str(tmp_path)), shelves)
    run(made, "first")
    log.clear()
    return made


def run(sinks: Several, run_id: str, audit: Audit | None = None) -> None:
    tables: dict[str, Any] = {"items": Rows(run_id)}
    publish(replace(sinks, audit=audit), run_id, tables, lambda _: {"run_id": run_id})


def found(sinks: Several) -> set[str]:
    shelves = {sinks.warehouses[number].shown("items").run_id for number in (0, 1)}
    return {str(current_run_id(sinks.directory.given)), *shelves}


def test_the_directory_is_audited_first_and_all_written_before_one_changes(sinks: Several, log: list[str]) -> None:
    def tell(staged: StagedRun) -> dict[str, Any]:
        log.append(f"audit {', '.join(staged.tables)}")
        return {"runs": Rows("second", 1)}

    run(sinks, "second", audit=tell)
    steps = ("left write", "right write", "left show", "right show")
    assert log == ["audit items", *(step for step in steps for _ in range(2))]
    assert found(sinks) == {"second"}
    assert current_run(sinks.directory.given).record["warehouses"] == {
        place: {"where": f"{place}/items, {place}/runs", "tables": {"items": 3, "runs": 1}}
        for place in ("left", "right")
    }


def test_a_place_that_fails_takes_those_before_it_back(sinks: Several, log: list[str]) -> None:
    def refuse(step: str) -> None:
        if step == "show":
            raise ConflictError("another was first")

    sinks.warehouses[1].failing = refuse
    with pytest.raises(ConflictError, match="another was first"):
        run(sinks, "second")
    assert log[2:4] == ["left show", "left put back"]
    assert found(sinks) == {"first"}
    assert [len(sinks.warehouses[number].rows) for number in (0, 1)] == [1, 1]


def test_a_directory_that_moved_on_keeps_the_warehouses_as_they_were(sinks: Several, log: list[str]) -> None:
    def overtake(_: StagedRun) -> dict[str, Any]:
        other: dict[str, Any] = {"items": Rows("other")}
        publish(sinks.directory, "other", other, lambda _: {})
        return {}

    with pytest.raises(ConflictError, match="went from run first to run other"):
        run(sinks, "second", audit=overtake)
    assert [step for step in log if "show" in step] == []
    assert found(sinks) == {"first", "other"}


def test_a_place_found_different_afterwards_takes_all_back(sinks: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sinks.warehouses[1]

    def spoil() -> None:
        right.rows[right.labels["items"]] = Rows("spoilt", 1)

    at_first(monkeypatch, right, "commit", spoil, after=True)
    with pytest.raises(DcrecError, match=r"warehouses\.right: run second was published, and items found different"):
        run(sinks, "second")
    assert found(sinks) == {"first"}
    assert current_run(sinks.directory.given).record["run_id"] == "first"


@pytest.mark.parametrize("step", ["commit", "shown"])
def test_a_rollback_around_the_verification_stays(step: str, sinks: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sinks.warehouses[1]
    at_first(monkeypatch, right, step, partial(right.labels.update, dict(right.labels)), after=step == "commit")
    run(sinks, "second")
    assert right.shown("items").run_id == "first"
    assert current_run_id(sinks.directory.given) == "second"


def test_a_signal_after_the_commit_keeps_all_on_the_new_run(sinks: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt("stopped by SIGTERM")

    at_first(monkeypatch, ParquetSink, "verify", stop)
    with pytest.raises(KeyboardInterrupt):
        run(sinks, "second")
    assert found(sinks) == {"second"}


def test_equal_rows_are_equal_content_in_any_order_and_others_are_not(spark: SparkSession) -> None:
    rows = spark.range(10).selectExpr("id", "array(id / 3, null) as a", "map('k', id) as m")
    again = rows.orderBy("id", ascending=False).repartition(3).select("m", "a", "id")
    assert content_of(rows) == content_of(again)
    assert content_of(rows) != content_of(rows.where("id > 0").union(rows.where("id = 1")))
    assert content_of(rows.where("id < 0")) == Content(0, None)


def test_a_session_without_delta_is_refused_before_a_fit(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="dcrec jars delta"):
        DeltaWarehouse(spark, "default", 7, None).check()
