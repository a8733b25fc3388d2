"""What auditing and publishing add to a night, as shares of it: MovieLens 1M, to a directory, Iceberg and PostgreSQL.

    python -m benchmarks.night

Nights of ``dcrec retrain`` with the defaults, an audit on held-out ratings, and two warehouses, one after the other in
one process. The first has nothing to be compared with and warms Spark up; the shares are those of the last. Needs what
``make test-warehouse`` installs, and DCREC_JARS where it puts the archives.
"""

import functools
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from benchmarks import data
from benchmarks.run import RESULTS, versions
from dcrec_spark.jobs import job, retrain
from dcrec_spark.publish import parquet
from dcrec_spark.publish.several import Several
from dcrec_spark.spark.session import build_session
from tests.warehouse.commands import dcrec_with
from tests.warehouse.database import running_postgresql
from tests.warehouse.places import session_settings

NIGHTS = 2
# What a night calls for each of its parts. None lies within another one.
AUDITING: dict[str, tuple[Any, str]] = {
    "hold ratings out": (retrain, "hold_out"),
    "compare with the last model": (retrain, "compare_models"),
    "audit the lists": (job, "audit_lists"),
}
PUBLISHING: dict[str, tuple[Any, str]] = {
    "take checksums of the tables": (parquet, "fingerprint"),
    "take checksums of the model": (parquet, "fingerprint_folder"),
    "stage in the warehouses": (Several, "_stage_warehouses"),
    "commit": (Several, "commit"),
    "verify": (Several, "verify"),
}
THE_REST: dict[str, tuple[Any, str]] = {
    "fit": (retrain, "_fit"),
    "rank, and write the tables": (parquet, "write_table"),
}


def timed(parts: dict[str, tuple[Any, str]], seconds: Counter[str]) -> None:
    """Have the seconds of each part counted."""
    for part, (place, name) in parts.items():
        setattr(place, name, _counting(part, getattr(place, name), seconds))


def _counting(part: str, work: Any, seconds: Counter[str]) -> Any:
    @functools.wraps(work)
    def counting(*given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            seconds[part] += time.perf_counter() - begun

    return counting


def conf(folder: Path) -> dict[str, str]:
    """Spark as users have it, with the tests' catalogs."""
    plain = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    return {**session_settings(folder), **plain, "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}"}


def settings(folder: Path, url: str) -> Path:
    """Write the settings of a night."""
    file = folder / "night.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "input": {"path": str(data.movielens_1m())},
                "output": {"path": str(folder / "nightly")},
                "outcome": {"alpha": 1},
                "audit": {"held_out_share": 0.1, "relevant_from": 4},
                "warehouses": {
                    "iceberg": {"namespace": "lake.nightly"},
                    "postgresql": {"url": url, "user": "publisher", "namespace": "nightly"},
                },
            }
        )
    )
    return file


def share(of: dict[str, tuple[Any, str]], seconds: Counter[str], whole: float) -> float:
    """Return the share of a night that some of its parts take."""
    return round(sum(seconds[part] for part in of) / whole, 3)


def main() -> None:
    """Measure, and write the result beside the others."""
    seconds: Counter[str] = Counter()
    timed({**AUDITING, **PUBLISHING, **THE_REST}, seconds)
    with tempfile.TemporaryDirectory() as folder, running_postgresql(Path(folder)) as (url, password):
        os.environ["PGPASSWORD"] = password
        spark = build_session("night", master="local[*]", conf=conf(Path(folder)))
        command = ["retrain", "--config", settings(Path(folder), url)]
        for _ in range(NIGHTS):
            seconds.clear()
            begun = time.perf_counter()
            done = dcrec_with(*command)
            whole = time.perf_counter() - begun
            assert done.exit_code == 0, done.output
        spark.stop()
    result = {
        "what": __doc__.partition("\n")[0],
        "seconds": {"whole night": round(whole, 1), **{part: round(spent, 1) for part, spent in seconds.items()}},
        "share": {"auditing": share(AUDITING, seconds, whole), "publishing": share(PUBLISHING, seconds, whole)},
        **versions("python -m benchmarks.night"),
    }
    (RESULTS / "night-1m.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
