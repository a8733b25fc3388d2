"""Trials on disk as they finish, so that a search which dies goes on where it was.

<output>/trials/<search>/<token>.parquet    the trials that finished together; schema dcrec_spark.publish.schemas.TRIALS

A trial is known by its key, a hash of data, split, metric and all its settings: another space, or another way to
search, uses the same trials again, and never those of other data.
"""

import io
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from dcrec_spark.jobs.tune.entry import Entry
from dcrec_spark.publish import schemas
from dcrec_spark.storage.protocol import Files

FOLDER = "trials"
_SCHEMA = to_arrow_schema(schemas.TRIALS)


@dataclass(frozen=True)
class Ledger:
    """The trials of one search under an output directory."""

    files: Files
    root: str
    search: str

    @property
    def _directory(self) -> str:
        return f"{self.root}/{FOLDER}/{self.search}"

    def read(self) -> dict[str, Entry]:
        """Key of a trial -> its row, of all trials that were recorded."""
        names = [entry.name for entry in self.files.list(self._directory) if entry.name.endswith(".parquet")]
        entries = [entry for name in names for entry in _entries(self.files.read(f"{self._directory}/{name}"))]
        return {entry.key: entry for entry in entries}

    def append(self, entries: Sequence[Entry]) -> None:
        """Record trials, all or none."""
        table = pa.Table.from_pylist([asdict(entry) for entry in entries], _SCHEMA)
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        self.files.make_directory(self._directory)
        self.files.write(f"{self._directory}/{secrets.token_hex(8)}.parquet", buffer.getvalue())

    def others(self) -> int:
        """How many other searches have trials here."""
        return sum(
            entry.is_directory and entry.name != self.search for entry in self.files.list(f"{self.root}/{FOLDER}")
        )


def _entries(content: bytes) -> list[Entry]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(content), schema=_SCHEMA).to_pylist()
    return [Entry(**{**row, "metrics": dict(row["metrics"])}) for row in rows]
