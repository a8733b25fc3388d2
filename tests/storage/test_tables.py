"""A table on disk is the table that was written, or an error that says where its rows are."""

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from dcrec_spark.errors import DataError
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.staging import write_table
from tests.frames import frame_of


class HalfLost(LocalFiles):
    """A store that loses the files of a table between two looks, like the disks of executors that nobody shares."""

    looks = 0

    def uri(self, path: str) -> str:
        self.looks += 1
        if self.looks == 2:
            for part in sorted(Path(path).glob("part-*"))[1:]:
                part.unlink()
        return super().uri(path)


def test_what_is_read_is_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    table = frame_of(spark, [("u1", [1.0, 2.0]), ("u2", None), ("", [])], "id string, features array<double>")
    path = f"{tmp_path}/factors"
    assert write_table(LocalFiles(), path, table, "output.path") == 3
    assert_df_equality(spark.read.parquet(path), table, ignore_row_order=True, ignore_nullable=True)


def test_rows_that_the_driver_does_not_see_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"10 rows were written to .*, and \d are there.*set output\.path"):
        write_table(HalfLost(), f"{tmp_path}/lost", spark.range(10).repartition(2), "output.path")
