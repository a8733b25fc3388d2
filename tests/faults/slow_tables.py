"""The command line, but the rows of one table come slowly, so that its files are open for some seconds.

python -m tests.faults.slow_tables recommendations retrain --set input.path=...
"""

import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from dcrec_spark.jobs.command import main
from dcrec_spark.publish import parquet


def slowly(table: str) -> Callable[..., int]:
    write = parquet.write_table

    def write_slowly(files: Any, path: str, rows: DataFrame, setting: str) -> int:
        if path.endswith(f"/{table}"):
            rows = rows.where("reflect('java.lang.Thread', 'sleep', 100L) is not null")
        return write(files, path, rows, setting)

    return write_slowly


if __name__ == "__main__":
    parquet.write_table = slowly(sys.argv.pop(1))
    main()
