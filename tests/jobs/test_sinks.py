"""The commands ``runs`` and ``rollback`` on a directory, and sinks of other packages: no session is needed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from click.testing import Result

from dcrec_spark.config.types import Section
from dcrec_spark.jobs import sinks
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.warehouse import StoredRun
from tests.jobs.job import dcrec_with
from tests.publish.test_parquet import commit, stage_by_hand
from tests.publish.test_several import Shelf


def publish_by_hand(output: Path, run_id: str, run_date: str) -> None:
    staged = stage_by_hand(output, run_id)
    commit(staged, {"run_id": run_id, "run_date": run_date, "tables": dict.fromkeys(staged.tables, 5)})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    for day in ("01", "02", "03"):
        publish_by_hand(tmp_path, f"run-{day}", f"2026-11-{day}")
    return tmp_path


def rows_of(listed: Result) -> list[list[str]]:
    assert listed.exit_code == 0, listed.output
    return [line.split() for line in listed.stdout.splitlines() if line.strip()]


def test_runs_are_listed_and_one_command_goes_back(output: Path) -> None:
    place = ("--set", f"output.path={output}")
    assert rows_of(dcrec_with("runs", *place)) == [
        ["run", "date", "output"],
        ["run-03", "2026-11-03", "current"],
        ["run-02", "2026-11-02", "held"],
        ["run-01", "2026-11-01", "held"],
    ]
    assert ["run-01", "2026-11-01", "current"] in rows_of(dcrec_with("rollback", "run-01", *place))
    assert current_run_id(str(output)) == "run-01"
    publish_by_hand(output, "run-04", "2026-11-04")
    assert current_run_id(str(output)) == "run-04"


@pytest.mark.parametrize("run_id", ["run-09", "../run-01", ""])
def test_a_run_that_is_not_there_is_refused_and_those_that_are_named(output: Path, run_id: str) -> None:
    refused = dcrec_with("rollback", run_id, "--set", f"output.path={output}")
    assert refused.exit_code == 3
    message = json.loads(refused.stderr.splitlines()[-1])["event"]
    assert message == f"run {run_id} is not held in output; held everywhere: run-03, run-02, run-01"
    assert current_run_id(str(output)) == "run-03"


def test_a_damaged_run_is_marked_and_blocks_no_way_to_a_whole_one(output: Path) -> None:
    place = ("--set", f"output.path={output}")
    record = output / "run_id=run-02" / "run.json"
    record.write_bytes(record.read_bytes().replace(b"2026", b"2027"))
    for damaged in ("held", "current"):
        states = {row[0]: row[-1] for row in rows_of(dcrec_with("runs", *place)) if row[0].startswith("run-")}
        assert states.items() >= {"run-01": "held", "run-03": "current"}.items(), damaged
        (output / "CURRENT").write_text("run-03" if damaged == "held" else "run-02")
    listed = dcrec_with("runs", *place)
    assert ["run-02", "?", "current,", "damaged"] in rows_of(listed)
    assert "run-02 is damaged:" in listed.stdout
    (output / "CURRENT").write_text("?!")
    listed = dcrec_with("runs", *place)
    assert ["run-03", "2026-11-03", "held"] in rows_of(listed)
    (warned,) = map(json.loads, listed.stderr.splitlines())
    assert warned["level"] == "warning"
    assert "CURRENT" in warned["event"]
    (output / "CURRENT").write_text("run-00")
    assert ["run-00", "?", "current,", "damaged"] in rows_of(dcrec_with("runs", *place))
    assert ["run-01", "2026-11-01", "current"] in rows_of(dcrec_with("rollback", "run-01", *place))
    refused = dcrec_with("rollback", "run-02", *place)
    assert refused.exit_code == 3
    assert "run.json is changed; no place is on run run-02" in refused.stderr
    assert current_run_id(str(output)) == "run-01"


def test_an_empty_output_and_none_are_told(tmp_path: Path) -> None:
    assert rows_of(dcrec_with("runs", "--set", f"output.path={tmp_path}")) == [["nothing", "is", "published"]]
    assert dcrec_with("runs").exit_code == 2
    assert "warehouses.hive" in dcrec_with("runs", "--set", "warehouses.hve=x").stderr


def test_a_database_that_is_down_ends_with_a_code_by_which_a_scheduler_tries_again(output: Path) -> None:
    address = "warehouses.postgresql.url=jdbc:postgresql://127.0.0.1:1/shop"
    away = dcrec_with("runs", "--set", f"output.path={output}", "--set", address)
    assert away.exit_code == 8
    assert "a service could not be reached: setting warehouses.postgresql.url is " in away.stderr


class ShelfSettings(Section):
    place: str
    height: int = 3


class OtherShelf(Shelf):
    Settings = ShelfSettings
    opened: ClassVar[list[object]] = []

    @classmethod
    def open(cls, settings: ShelfSettings, spark: object, keep: int, run_date: object) -> "OtherShelf":
        cls.opened.append((settings, keep))
        return cls("shelf", [])

    def runs(self) -> list[StoredRun]:
        return [StoredRun("run-07", "2026-11-07", ("recommendations",), ("recommendations",))]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    OtherShelf.opened.clear()
    entry = SimpleNamespace(name="shelf", load=lambda: OtherShelf)
    monkeypatch.setattr(sinks, "entry_points", lambda group: [entry] if group == "dcrec_spark.sinks" else [])


@pytest.mark.usefixtures("shelf")
def test_a_sink_of_another_package_is_found_by_its_entry_point(output: Path) -> None:
    given = (f"output.path={output}", "warehouses.other.shelf={place: hall}", "output.keep=4")
    listed = dcrec_with("runs", *(word for setting in given for word in ("--set", setting)))
    assert ["run-07", "2026-11-07", "current"] in rows_of(listed)
    assert OtherShelf.opened == [(ShelfSettings(place="hall"), 4)]


@pytest.mark.usefixtures("shelf")
def test_a_rollback_to_a_run_that_a_warehouse_removes_meanwhile_ends_with_5(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that finds no run when it is asked to go back."""
    monkeypatch.setattr(OtherShelf, "runs", lambda _: [StoredRun("run-01", "2026-11-01", ("recommendations",), ())])
    given = ("--set", f"output.path={output}", "--set", "warehouses.other.shelf={place: hall}")
    lost = dcrec_with("rollback", "run-01", *given)
    assert lost.exit_code == 5, lost.output
    assert "no place is on run run-01" in lost.stderr
    assert current_run_id(str(output)) == "run-03"


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("shelf={place: hall, height: tall}", "setting warehouses.other.shelf.height: found 'tall', expected a whole"),
        ("shelf={place: hall, hight: 3}", "unknown setting warehouses.other.shelf.hight: did you mean"),
        ("shelf={}", "warehouses.other.shelf.place"),
        ("shelv={place: hall}", "no installed package offers this sink (entry point group dcrec_spark.sinks)"),
    ],
)
def test_a_sink_checks_its_own_settings(given: str, words: str, output: Path) -> None:
    refused = dcrec_with("runs", "--set", f"output.path={output}", "--set", f"warehouses.other.{given}")
    assert refused.exit_code == 2
    assert words in json.loads(refused.stderr.splitlines()[-1])["event"]
