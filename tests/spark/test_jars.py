"""Java archives: listed with checksums, fetched once, refused when they are others."""

import hashlib
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark import jars
from dcrec_spark.spark.compat import SUPPORTED
from dcrec_spark.spark.jars import Jar, fetch_jars, listed_jars, require_runtimes, series_with_runtime
from tests.spark.standalone import ROOT

CONTENT = b"an archive"
WANTED = Jar("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Commands that would have been run; Ivy's part is played by a file with ``CONTENT``."""
    made: list[Sequence[str]] = []

    def ivy(*command: str) -> "subprocess.CompletedProcess[str]":
        made.append(command)
        pattern = command[command.index("-retrieve") + 1]
        Path(pattern.replace("[artifact]-[revision](-[classifier]).[ext]", WANTED.file_name)).write_bytes(CONTENT)
        return subprocess.CompletedProcess(command, 0, "found nothing wrong", "")

    monkeypatch.setattr(jars, "listed_jars", lambda _spark=None: [WANTED])
    monkeypatch.setattr(jars, "_run_ivy", ivy)
    return made


def test_every_archive_has_coordinates_and_a_checksum_and_no_address() -> None:
    listed = listed_jars("4.1.4")
    names = {jar.artifact.split("-")[0] for jar in listed if not jar.purpose}
    assert names == {"iceberg", "sqlite", "delta", "postgresql"}
    assert all(len(jar.sha256) == 64 and int(jar.sha256, 16) for jar in listed)
    assert all("/" not in part for jar in listed for part in jar)


def test_an_archive_is_fetched_once(tmp_path: Path, calls: list[Sequence[str]]) -> None:
    (path,) = fetch_jars(tmp_path / "jars")
    assert path.read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["thing-1.0.jar"]
    fetch_jars(tmp_path / "jars", ["thing"])
    assert len(calls) == 1
    path.write_bytes(b"half of")
    fetch_jars(tmp_path / "jars")
    assert path.read_bytes() == CONTENT


def test_another_archive_is_refused(
    tmp_path: Path, calls: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "listed_jars", lambda _spark=None: [WANTED._replace(sha256="0" * 64)])
    with pytest.raises(ConfigError, match=r"thing-1.0.jar has the SHA-256 .*it is another file"):
        fetch_jars(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"conf/jars.txt lists no artifact that begins with nothing"):
        fetch_jars(tmp_path, ["nothing"])
    answer = subprocess.CompletedProcess((), 1, "unresolved dependency", "")
    monkeypatch.setattr(jars, "_run_ivy", lambda *_command: answer)
    with pytest.raises(ConfigError, match=r"org.example:thing:1.0 could not be fetched; Ivy says:\nunresolved"):
        fetch_jars(tmp_path)


@pytest.mark.parametrize(
    ("version", "iceberg", "delta"),
    [
        ("3.5.9", "3.5_2.12-1.12.0", "2.12-3.3.3"),
        ("4.0.5", "4.0_2.13-1.11.0", "4.0_2.13-4.4.0"),
        ("4.1.4", "4.1_2.13-1.12.0", "4.1_2.13-4.4.0"),
    ],
)
def test_archives_are_those_of_the_spark_that_runs(version: str, iceberg: str, delta: str) -> None:
    built_for = {f"iceberg-spark-runtime-{iceberg}.jar", f"delta-spark_{delta}.jar"}
    listed = [jar for jar in listed_jars(version) if not jar.purpose]
    assert {jar.file_name for jar in listed if "-spark" in jar.artifact} == built_for
    assert sum(jar.artifact == "delta-storage" for jar in listed) == 1


def test_the_extra_of_warehouses_takes_a_spark_that_both_formats_have_a_runtime_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    newest = max(set(series_with_runtime("iceberg")) & set(series_with_runtime("delta")))
    following = SUPPORTED[SUPPORTED.index(newest) + 1]
    assert f"pyspark<{following}" in extras["warehouse"]


SPARK_CATALOG = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
OF_4_1 = {"spark.jars": "jars/postgresql-42.7.14.jar,jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar"}


@pytest.mark.parametrize(
    ("version", "conf", "words"),
    [
        (
            *("4.0.5", OF_4_1),
            "spark.jars has iceberg-spark-runtime-4.1_2.13, which is built for Spark 4.1, and this is Spark 4.0.5; "
            "'dcrec jars iceberg' fetches the one for it, and prints the value of spark.jars (spark-submit: --jars)",
        ),
        (
            *("4.1.4", {"spark.jars.packages": "io.delta:delta-spark_2.12:3.3.3"}),
            "spark.jars has delta-spark_2.12, which is built for Spark 3.5, and this is Spark 4.1.4; 'dcrec jars ",
        ),
        (
            *("4.1.4", SPARK_CATALOG),
            "spark.sql.catalog.lake is org.apache.iceberg.spark.SparkCatalog, which Spark 4.1.4 has no archive for; "
            "'dcrec jars iceberg' fetches",
        ),
        (
            *("4.3.0", {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}),
            "Delta has no runtime for Spark 4.3: install a Spark that it has one for (3.5, 4.0, 4.1, 4.2), such as "
            "pip install 'pyspark==4.2.*'",
        ),
    ],
)
def test_archives_of_another_spark_and_missing_ones_are_refused(version: str, conf: dict[str, str], words: str) -> None:
    session = Mock(version=version)
    session.sparkContext.getConf().getAll.return_value = [("spark.sql.warehouse.dir", "org.apache.iceberg.spark.x")]
    loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.loadClass.side_effect = Py4JJavaError("no such class", Mock(_target_id="o0"))
    with pytest.raises(ConfigError) as refused:
        require_runtimes(session, conf)
    assert words in str(refused.value)
    require_runtimes(session, {})
    loader.loadClass.side_effect = None
    require_runtimes(Mock(version="4.1.4", sparkContext=session.sparkContext), {**OF_4_1, **SPARK_CATALOG})
