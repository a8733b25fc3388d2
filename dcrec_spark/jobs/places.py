"""What is published where, and all places back to one run: the commands ``runs`` and ``rollback``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.warehouses import PlacesConfig
from dcrec_spark.errors import DataError, DcrecError
from dcrec_spark.jobs.runner import output_path
from dcrec_spark.jobs.sinks import need_a_session, opened_warehouses
from dcrec_spark.publish.current import read_record, run_id_in, run_path
from dcrec_spark.publish.output import Output, open_output
from dcrec_spark.publish.warehouse import Kept, Warehouse
from dcrec_spark.spark.session import build_session
from dcrec_spark.storage.files import is_local

OUTPUT = "output"


@dataclass(frozen=True)
class Places:
    """The directory and the warehouses that the settings name."""

    spark: SparkSession | None
    directory: Output
    warehouses: Sequence[Warehouse]

    def held(self) -> dict[str, list[Kept]]:
        """List the runs of each place, by the place's name, the newest first."""
        return {OUTPUT: self._in_directory(), **{place.kind: place.kept() for place in self.warehouses}}

    def _in_directory(self) -> list[Kept]:
        files, root = self.directory.files, self.directory.root
        current = run_id_in(files, root)
        runs = []
        for run_id in reversed(self.directory.run_ids()):
            record = read_record(files.uri(run_path(root, run_id)), self.spark) or {}
            tables = tuple(record.get("tables", ()))
            runs.append(Kept(run_id, str(record.get("run_date")), tables, tables if run_id == current else ()))
        return runs

    def roll_back(self, run_id: str) -> None:
        """Bring all places to a run that all of them hold, the directory last.

        Raises
        ------
        DataError : a place does not hold the run; nothing has changed. DcrecError : a place failed; says which ones
            are on the run already.
        """
        held = self.held()
        lacking = [place for place, runs in held.items() if run_id not in {run.run_id for run in runs}]
        if lacking:
            everywhere = set.intersection(*({run.run_id for run in runs} for runs in held.values()))
            known = ", ".join(sorted(everywhere, reverse=True)) or "none"
            raise DataError(f"run {run_id} is not held in {', '.join(lacking)}; held everywhere: {known}")
        done: list[str] = []
        with self.directory.publishing():
            try:
                for warehouse in self.warehouses:
                    warehouse.restore(run_id)
                    done.append(warehouse.kind)
                self.directory.restore(run_id)
            except DcrecError as error:
                already = ", ".join(done) or "no place"
                message = f"{error}; {already} is on run {run_id}: mend the cause, and run the same command again"
                raise type(error)(message) from error


@contextmanager
def opened_places(config: PlacesConfig) -> Iterator[Places]:
    """Open what the settings name; Spark starts only where a place needs it.

    Raises
    ------
    ConfigError : a place cannot be opened; names the setting.
    """
    output = output_path(config)
    needed = need_a_session(config.warehouses) or not is_local(output)
    spark = build_session(config.run.name, config.spark.master, config.spark.conf) if needed else None
    with opened_warehouses(config.warehouses, spark, None) as warehouses:
        for warehouse in warehouses:
            warehouse.check()
        yield Places(spark, open_output(output, spark), warehouses)


def table_of_runs(held: Mapping[str, Sequence[Kept]]) -> RenderableType:
    """Show a row for each run and a column for each place: current, held, or nothing."""
    table = Table("run", "date", *held, box=None, padding=(0, 2, 0, 0))
    dates = {run.run_id: run.run_date for runs in held.values() for run in runs}
    for run_id in sorted(dates, reverse=True):
        in_places = [next((run for run in runs if run.run_id == run_id), None) for runs in held.values()]
        table.add_row(run_id, dates[run_id], *map(_state, in_places))
    return table if dates else Text("nothing is published")


def _state(run: Kept | None) -> str:
    if run is None:
        return ""
    if not run.current:
        return "held"
    whole = set(run.current) == set(run.tables)
    return "current" if whole else f"current: {', '.join(run.current)}"
