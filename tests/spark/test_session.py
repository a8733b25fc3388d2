"""Where a session's settings come from, and that Spark starts on a machine that has no Java."""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark import session
from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import ROOT, finished, plain_environment

LOGGING = f"-Dlog4j2.configurationFile={(ROOT / 'conf' / 'log4j2.properties').as_uri()}"

# Starts a session and tells, as the last line, what came of it: the driver's side, each worker's, and what a query
# raised that fails.
REPORT = """
import json, os, sys
from pyspark.errors import NumberFormatException
from pyspark.sql import Observation
from pyspark.sql import functions as F
from dcrec_spark.spark.session import build_session

def look(batches):
    import os, sys
    import pyarrow as pa
    for batch in batches:
        names = ["pid", "python", "java_home", "threads"]
        row = [str(os.getppid()), sys.executable, os.environ["JAVA_HOME"], os.environ["OPENBLAS_NUM_THREADS"]]
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names)

spark = build_session(**json.loads(os.environ["REPORT_ARGUMENTS"]))
schema = "pid string, python string, java_home string, threads string"
rows = spark.range(8, numPartitions=4).mapInArrow(look, schema).collect()

# Cannot be planned, so that whoever counts its rows finds no plan.
observed = spark.range(1).observe(Observation(), F.count(F.lit(1)).alias("rows")).filter("cast('x' as int) = 1")
try:
    observed.write.format("noop").mode("append").save()
except NumberFormatException as error:
    raised = str(error).splitlines()[0]
spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

told = {
    "settings": dict(spark.sparkContext.getConf().getAll()),
    "java": spark._jvm.System.getProperty("java.specification.version"),
    "command": spark._jvm.System.getProperty("sun.java.command"),
    "heap": spark._jvm.java.lang.Runtime.getRuntime().maxMemory(),
    "workers": [row.asDict() for row in rows],
    "raised": raised,
}
if "DCREC_LOG" in os.environ:
    spark._jvm.System.setProperty("dcrec.run_id", "r1")
    error = spark._jvm.java.lang.RuntimeException('no "x"')
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger("a.b.Shop").error('say "this"\\nand that', error)
print(json.dumps(told))
"""


def report(command: list[str | Path], environment: dict[str, str], **arguments: Any) -> tuple[dict[str, Any], str]:
    """Run REPORT in a process of its own: what it tells, and what it wrote to stderr, where Java names its options."""
    settings = {**plain_environment(), "REPORT_ARGUMENTS": json.dumps(arguments), **environment}
    settings.pop("JDK_JAVA_OPTIONS", None)
    run = finished(*command, env=settings, seconds=240)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1]), run.stderr


def path_without_java(scratch: Path) -> str:
    shadow = scratch / "programs"
    shadow.mkdir()
    for program in (program for folder in os.get_exec_path() for program in Path(folder).glob("*")):
        if program.name != "java" and not (shadow / program.name).is_symlink():
            (shadow / program.name).symlink_to(program)
    return str(shadow)


def test_the_active_session_is_given_back_and_takes_what_can_still_change(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        conf = {"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "9g"}
        assert session.build_session("another", "local[1]", conf) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.sparkContext.getConf().get("spark.driver.memory") == "2g"
        assert spark.sparkContext.master == "local[2]"
        heap, results = session.jvm_limits(spark)
        assert 1.8 * 2**30 < heap <= 2 * 2**30
        assert results == math.inf
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    of_spark = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
    for name in (*of_spark, *session._OF_EVERY_JVM):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_a_local_session_is_complete_by_itself(outside: pytest.MonkeyPatch) -> None:
    outside.setattr(session, "machine_memory", lambda: 16 * 2**30)
    outside.setattr(os, "cpu_count", lambda: 3)
    settings = session._settings("name", None, {})
    assert settings == {
        **{"spark.master": "local[*]", "spark.app.name": "name", "spark.pyspark.python": sys.executable},
        **dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1"),
        "spark.driver.memory": "4096m",
        "spark.driver.maxResultSize": "0",
        "spark.driver.defaultJavaOptions": f"{LOGGING} -XX:+UseParallelGC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "12",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        **{f"spark.executorEnv.{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")},
        "spark.executorEnv.VECLIB_MAXIMUM_THREADS": "1",
    }


def test_the_stronger_source_wins(outside: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program's conf, then arguments, then this machine's defaults file, then the project's."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.driver.memory  1g\nspark.ui.enabled=true\nspark.sql.session.timeZone: Asia/Tokyo\n"
        "spark.driver.extraJavaOptions -Da=b -Dc=d\n"
    )
    outside.setenv("SPARK_CONF_DIR", str(tmp_path))
    flags = "--master local[3] --driver-memory 5g --conf spark.x=y=z --jars 'a b.jar' pyspark-shell"
    outside.setenv("PYSPARK_SUBMIT_ARGS", flags)
    settings = session._settings("name", "local[1]", {"spark.ui.enabled": "false", "spark.master": "local[9]"})
    expected = {
        "master": "local[3]", "driver.memory": "5g", "ui.enabled": "false", "sql.session.timeZone": "Asia/Tokyo",
        "driver.extraJavaOptions": "-Da=b -Dc=d", "x": "y=z",
    }  # fmt: skip
    assert {name: settings[f"spark.{name}"] for name in expected} == expected


def test_a_container_s_limit_counts_and_no_limit_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(session, "_CONTAINER_LIMITS", (limit,))
    machine = session.machine_memory()
    limit.write_text("max\n")
    assert session.machine_memory() == machine
    limit.write_text(f"{2**29}\n")
    assert session.machine_memory() == 2**29
    for machine, heap in ((2, 1), (4, 1), (16, 4), (256, 8)):
        monkeypatch.setattr(session, "machine_memory", lambda machine=machine: machine * 2**30)
        assert session._local_settings()["spark.driver.memory"] == f"{heap * 1024}m"


@pytest.mark.cluster
@pytest.mark.parametrize(("master", "processes"), [("local[2]", 1), ("local-cluster[2,1,1024]", 2)])
def test_spark_starts_without_java_on_the_machine_and_in_silence(tmp_path: Path, master: str, processes: int) -> None:
    environment = {"PATH": path_without_java(tmp_path), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path)}
    found, errors = report([sys.executable, "-c", REPORT], environment, master=master)
    (launcher,) = (tmp_path / "dcrec-spark").iterdir()
    assert found["java"] == "21"
    known = {(worker["java_home"], worker["python"], worker["threads"]) for worker in found["workers"]}
    assert known == {(str(launcher), sys.executable, "1")}
    assert len({worker["pid"] for worker in found["workers"]}) == processes
    # A failed query is reported by what it raises, and by no listener of the JVM.
    assert found["raised"].startswith("[CAST_INVALID_INPUT] The value 'x'")
    # The master of a local cluster says so where the job is faster than the workers that it has just started.
    # PySpark logs the failed query by a logger of its own.
    expected = ("more resource than any of Workers could have", "SQLQueryContextLogger")
    assert [line for line in errors.splitlines() if not any(words in line for words in expected)] == []


@pytest.mark.cluster
def test_no_setting_of_spark_is_on_the_command_line_of_the_jvm() -> None:
    """Everybody on a machine may read the command lines of all its processes."""
    odd = "hunter2 = a:b #! \\ é\t"
    conf = {
        "spark.sql.catalog.lake.credential": "dcrec:hunter2-hunter2",
        "spark.hadoop.fs.s3a.secret.key": odd,
        "spark.authenticate.secret": "hunter2",
        "spark.driver.memory": "1g",
    }
    flags = "--conf spark.ssl.keyPassword=hunter2 --verbose pyspark-shell"
    environment = {"PYSPARK_SUBMIT_ARGS": flags, "DCREC_LOG": "json"}
    found, errors = report([sys.executable, "-c", REPORT], environment, master="local[1]", conf=conf)
    assert {name: found["settings"][name] for name in conf} == conf
    assert found["settings"]["spark.ssl.keyPassword"] == "hunter2"
    assert found["heap"] < 1.01 * 2**30
    assert "hunter2" not in found["command"]
    assert "--verbose" in found["command"]
    assert not Path(found["command"].split("--properties-file ")[1].split()[0]).exists()
    # The log of a job has a line for each event, stack traces too.
    (line,) = [json.loads(line) for line in errors.splitlines() if "Shop" in line]
    assert (line["run_id"], line["event"], line["level"]) == ("r1", 'say "this"\nand that', "error")
    assert line["exception"].lstrip().startswith('java.lang.RuntimeException: no "x"\n\tat ')


@pytest.mark.cluster
def test_what_spark_submit_was_told_stands(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(REPORT)
    submit = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[1]"]
    flags = ["--name", "nightly", "--conf", "spark.sql.session.timeZone=Asia/Tokyo"]
    environment = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(ensure_java().path)}
    found, errors = report([*submit, *flags, script], environment, app_name="other", master="local[2]")
    assert "INFO TaskSetManager" not in errors
    expected = {"master": "local[1]", "app.name": "nightly", "sql.session.timeZone": "Asia/Tokyo"}
    for name, value in {**expected, "executorEnv.OMP_NUM_THREADS": "1"}.items():
        assert found["settings"][f"spark.{name}"] == value
    assert {worker["python"] for worker in found["workers"]} == {sys.executable}


def test_what_java_could_not_start_with_is_named_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raised = []
    monkeypatch.setattr(session.resource, "setrlimit", lambda _, limit: raised.append(limit))
    monkeypatch.setattr(session.resource, "getrlimit", lambda _: (256, 512))
    with pytest.raises(ConfigError, match="may open 512 files, and Spark needs 1024 or more: raise ulimit -n"):
        session._require_open_files()
    monkeypatch.setattr(session.resource, "getrlimit", lambda _: (256, 4096))
    session._require_open_files()
    assert raised == [(1024, 4096)]
    (tmp_path / "file").touch()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    session._require_scratch({"spark.local.dir": f"{tmp_path}/file/x, {tmp_path}/new"})
    with pytest.raises(ConfigError, match=r"spark\.local\.dir: no directory that Spark can write to: .*file/x"):
        session._require_scratch({"spark.local.dir": f"{tmp_path}/file/x"})


def test_who_names_a_collector_has_it(outside: pytest.MonkeyPatch) -> None:
    """Two collectors stop the JVM before it starts; that of the executors is another JVM's."""

    def options(conf: dict[str, str]) -> str:
        return session._settings("name", None, conf)["spark.driver.defaultJavaOptions"].replace(f"{LOGGING} ", "")

    assert options({"spark.driver.extraJavaOptions": "-Xss4m"}) == "-XX:+UseParallelGC"
    assert options({"spark.executor.extraJavaOptions": "-XX:+UseZGC"}) == "-XX:+UseParallelGC"
    assert options({"spark.driver.defaultJavaOptions": "-Dx=y"}) == "-Dx=y -XX:+UseParallelGC"
    assert options({"spark.driver.extraJavaOptions": "-Xss4m -XX:+UseZGC"}) == LOGGING
    assert options({"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"}) == f"-XX:+UseG1GC {LOGGING}"
    outside.setenv("PYSPARK_SUBMIT_ARGS", '--driver-java-options "-XX:+UseZGC" pyspark-shell')
    assert options({}) == LOGGING
    outside.delenv("PYSPARK_SUBMIT_ARGS")
    outside.setenv("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC")
    assert options({}) == LOGGING


@pytest.mark.usefixtures("outside")
def test_on_a_cluster_nothing_local_is_imposed() -> None:
    settings = session._settings("name", "spark://somewhere:7077", {})
    assert settings["spark.master"] == "spark://somewhere:7077"
    assert settings["spark.driver.defaultJavaOptions"] == LOGGING
    local_only = ("driver.host", "driver.memory", "ui.enabled", "pyspark.python", "sql.shuffle.partitions")
    for name in (*local_only, "driver.maxResultSize"):
        assert f"spark.{name}" not in settings


@pytest.mark.parametrize("submitted", [False, True])
def test_executors_have_a_collector_that_moves_large_arrays(outside: pytest.MonkeyPatch, submitted: bool) -> None:
    outside.setattr(session, "_given_settings", lambda: {"spark.master": "yarn"})
    outside.setattr(session, "_is_submitted", lambda: submitted)

    def options(conf: dict[str, str]) -> str | None:
        return session._settings("name", None, conf).get("spark.executor.defaultJavaOptions")

    assert options({}) == options({"spark.driver.extraJavaOptions": "-XX:+UseZGC"}) == "-XX:+UseParallelGC"
    assert options({"spark.executor.defaultJavaOptions": "-Dx=y"}) == "-Dx=y -XX:+UseParallelGC"
    for name in ("spark.executor.extraJavaOptions", "spark.executorEnv.JAVA_TOOL_OPTIONS"):
        assert options({name: "-XX:+UseG1GC"}) is None
