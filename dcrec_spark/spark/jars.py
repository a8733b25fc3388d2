"""Java archives that warehouses need: fetched with the Ivy that comes with pyspark, and checked against the Spark.

A runtime of Iceberg or Delta is built for one series of Spark, such as 4.1. conf/jars.txt lists one for each series
that has any.
"""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.compat import SUPPORTED, is_classic, series_of
from dcrec_spark.spark.java import ensure_java
from dcrec_spark.spark.session import conf_file

LIST = "jars.txt"
_SPARK = "spark-"
# The archives whose names say which Spark they are built for, and the classes that are in them.
# Delta's for Spark 3.5 have Scala's version alone.
_BUILT_FOR = re.compile(r"((iceberg|delta)-spark(?:-runtime-|_)(?:(\d+\.\d+)_2\.1\d|2\.12))")
_SETS_CLASSES = re.compile(r"spark\.sql\.(extensions|catalog\.\w+)")
_CATALOGS = re.compile(r"\b((?:org\.apache\.|io\.|org\.apache\.spark\.sql\.)(iceberg|delta)\.[\w.]+)")
TIMEOUT_SECONDS = 300
# Each is a process that mostly waits for the network.
SIDE_BY_SIDE = 4
# A Java that pip installed trusts the authorities in its own store only; the system's store knows those of a proxy.
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


class Jar(NamedTuple):
    """One archive, by its coordinates, and the checksum that it has to have.

    version : with a classifier, for what an artifact has besides its main archive: ``1.0:tests``.
    purpose : what needs it with others, or the only Spark that it is built for: ``spark-4.1``.
    """

    group: str
    artifact: str
    version: str
    sha256: str
    purpose: str = ""

    @property
    def file_name(self) -> str:
        """Its name in the folder."""
        return f"{self.artifact}-{self.version.replace(':', '-')}.jar"

    @property
    def module(self) -> str:
        """What Ivy is to resolve: this archive alone, for ``-dependency`` knows no classifiers."""
        version, _, classifier = self.version.partition(":")
        chosen = f' m:classifier="{classifier}"' if classifier else ""
        return (
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
            '<info organisation="dcrec-spark" module="jars"/><configurations><conf name="default"/></configurations>'
            f'<dependencies><dependency org="{self.group}" name="{self.artifact}" rev="{version}" conf="default" '
            f'transitive="false"><artifact name="{self.artifact}" type="jar" ext="jar"{chosen}/></dependency>'
            "</dependencies></ivy-module>"
        )


def listed_jars(spark: str | None = None) -> list[Jar]:
    """Read conf/jars.txt. spark : a version, which leaves out what is built for others. None: the installed one."""
    lines = conf_file(LIST).read_text(encoding="utf-8").splitlines()
    jars = [Jar(*line.split()) for line in lines if line.strip() and not line.startswith("#")]
    ours = f"{_SPARK}{series_of(spark or pyspark.__version__)}"
    return [
        jar._replace(purpose=jar.purpose.replace(ours, ""))
        for jar in jars
        if jar.purpose == ours or not jar.purpose.startswith(_SPARK)
    ]


def series_with_runtime(product: str) -> list[str]:
    """Return the series of Spark that a runtime of ``iceberg`` or ``delta`` is listed for."""
    return [series for series in SUPPORTED if any(_is_meant(jar, product) for jar in listed_jars(series))]


def fetch_jars(folder: Path, artifacts: Sequence[str] = ()) -> list[Path]:
    """Bring archives for the installed Spark into a folder. One that is there with its checksum is not fetched again.

    artifacts : Beginnings of artifacts' names, such as ``iceberg``, or what many are for: ``s3``. None: all.
    Raises ConfigError: one is not listed, can not be fetched, or is another file than the checksum says.
    """
    chosen = [jar for jar in listed_jars() if not artifacts or any(_is_meant(jar, name) for name in artifacts)]
    for name in artifacts:
        if not any(_is_meant(jar, name) for jar in chosen):
            raise ConfigError(
                _no_runtime(name, pyspark.__version__)
                if series_with_runtime(name)
                else f"conf/{LIST} lists no artifact that begins with {name}"
            )
    for jar in [jar for jar in chosen if artifacts and jar.artifact == "hadoop-aws"]:
        (client,) = (Path(pyspark.__path__[0]) / "jars").glob("hadoop-client-api-*.jar")
        hadoop = client.stem.rpartition("-")[2]
        if jar.version != hadoop:
            raise ConfigError(
                f"conf/{LIST} lists hadoop-aws {jar.version}, and Spark {pyspark.__version__} comes with Hadoop "
                f"{hadoop}: set spark.jars.packages to org.apache.hadoop:hadoop-aws:{hadoop} instead"
            )
    return bring_jars(folder, chosen)


def _is_meant(jar: Jar, name: str) -> bool:
    return jar.purpose == name if jar.purpose else jar.artifact.startswith(name)


def require_runtimes(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Refuse a session, asked for ``conf``, whose catalogs lack a runtime, or have one that is for another Spark."""
    if not is_classic(spark):
        return
    settings = {**dict(spark.sparkContext.getConf().getAll()), **conf}
    named = f"{settings.get('spark.jars', '')},{settings.get('spark.jars.packages', '')}"
    for archive, product, series in _BUILT_FOR.findall(named):
        series = series or "3.5"
        if series != series_of(spark.version):
            raise ConfigError(
                f"spark.jars has {archive}, which is built for Spark {series}, and this is Spark {spark.version}; "
                f"{_cure(product, spark.version)}"
            )
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name, value in sorted(settings.items()):
        for class_name, product in _CATALOGS.findall(value) if _SETS_CLASSES.fullmatch(name) else []:
            try:
                loader.loadClass(class_name)
            except Py4JJavaError as error:
                raise ConfigError(
                    f"{name} is {class_name}, which Spark {spark.version} has no archive for; "
                    f"{_cure(product, spark.version)}"
                ) from error


def _cure(product: str, version: str) -> str:
    if series_of(version) not in series_with_runtime(product):
        return _no_runtime(product, version)
    return f"'dcrec jars {product}' fetches the one for it, and prints the value of spark.jars (spark-submit: --jars)"


def _no_runtime(product: str, version: str) -> str:
    known = series_with_runtime(product)
    return (
        f"{product.capitalize()} has no runtime for Spark {series_of(version)}: install a Spark that it has one for "
        f"({', '.join(known)}), such as pip install 'pyspark=={known[-1]}.*'"
    )


def _fetch(folder: Path, jar: Jar, java: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="jars-", dir=folder) as scratch:
        Path(scratch, "ivy.xml").write_text(jar.module, encoding="utf-8")
        run = _run_ivy(
            java, "-cache", f"{scratch}/cache", "-ivy", f"{scratch}/ivy.xml",
            "-confs", "default", "-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]",
        )  # fmt: skip
        fetched = Path(scratch, jar.file_name)
        if run.returncode != 0 or not fetched.is_file():
            raise ConfigError(
                f"{jar.group}:{jar.artifact}:{jar.version} could not be fetched; Ivy says:\n{run.stdout[-2000:]}"
            )
        found = _sha256(fetched)
        if found != jar.sha256:
            raise ConfigError(
                f"{jar.file_name} has the SHA-256 {found}; conf/{LIST} expects {jar.sha256}: it is another file"
            )
        fetched.replace(folder / jar.file_name)


def _run_ivy(java: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (ivy,) = (Path(pyspark.__path__[0]) / "jars").glob("ivy-*.jar")
    trust = [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"] if SYSTEM_TRUST_STORE.is_file() else []
    command = [str(java), *trust, "-jar", str(ivy), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def bring_jars(folder: Path, jars: Sequence[Jar]) -> list[Path]:
    """Bring archives of any list into a folder. Raises ConfigError: one can't be fetched, or has another checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    there = {jar: folder / jar.file_name for jar in jars}
    wanted = [jar for jar, path in there.items() if not path.is_file() or _sha256(path) != jar.sha256]
    if wanted:
        java = ensure_java().path / "bin" / "java"
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(lambda jar: _fetch(folder, jar, java), wanted))
    return list(there.values())
