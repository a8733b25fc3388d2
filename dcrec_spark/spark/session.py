"""The one place where a SparkSession is made.

On one machine nothing has to be prepared: Java is found, memory is measured, nothing listens beyond loopback.
On a cluster, the settings given to ``spark-submit`` win.
"""

import argparse
import atexit
import logging
import math
import os
import re
import resource
import shlex
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.compat import is_classic, require_supported
from dcrec_spark.spark.java import ensure_java, without_incubator_warning

DEFAULT_MASTER = "local[*]"
_PARTITIONS_PER_CORE = 4
_LOOPBACK = "127.0.0.1"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_MIB = 2**20
# Spark's default: a session of Spark Connect does not tell what its server is set to.
_CONNECT_RESULTS = 1024.0 * _MIB
# A usual limit. With 256 Java cannot load its classes.
_OPEN_FILES = 1024
_PROPERTY = re.compile(r"^\s*([^\s#!=:]+)\s*[=:\s]\s*(.*?)\s*$", re.MULTILINE)
_OF_EVERY_JVM = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_NAMES_A_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
# Where a container's share of the machine is written, in cgroups version 2 and 1.
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

log = logging.getLogger(__name__)


def build_session(
    app_name: str = "dcrec-spark", master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the active session, or make one.

    app_name : shown in Spark's UI. ``spark-submit --name`` wins over it.
    master : where to run, unless ``spark-submit`` was given a master. By default ``local[*]``.
    conf : Spark settings by full name. They win over those of ``spark-submit`` and of the defaults files, as
        settings made in code do in Spark. Only the master given to ``spark-submit`` wins. A session that is
        active already takes those that can change while it runs.

    Raises ConfigError: this version of Spark is not supported, or there is no Java 17 or 21 to start it with.

    Examples
    --------
    >>> from dcrec_spark import build_session
    >>> spark = build_session("first recommendations")
    >>> spark.range(3).count()
    3
    """
    wanted = dict(conf or {})
    active = SparkSession.getActiveSession()
    require_supported(active)
    if active is not None:
        for name, value in wanted.items():
            if active.conf.isModifiable(name):
                active.conf.set(name, value)
            else:
                log.debug("%s=%s has no effect: the Spark session was started before", name, value)
        return active
    if "spark.remote" in wanted or "SPARK_REMOTE" in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers of a server that this starts
        return SparkSession.builder.config(map={"spark.app.name": app_name, **wanted}).getOrCreate()
    settings = _settings(app_name, master, wanted)
    _prepare_process(settings)
    with without_incubator_warning():
        _start_jvm(settings)
        session = SparkSession.builder.config(map={**settings}).getOrCreate()
    if _is_submitted():
        _quieten()
    atexit.register(_stop, session)
    return session


def _settings(app_name: str, master: str | None, wanted: Mapping[str, str]) -> dict[str, str]:
    given = _given_settings()
    chosen = given.get("spark.master") or master or wanted.get("spark.master") or DEFAULT_MASTER
    return {
        **_read_properties(conf_file("spark-defaults.conf")),
        **(_local_settings() if chosen.startswith("local") else {}),
        "spark.app.name": app_name,
        **given,
        **wanted,
        **_java_options(chosen, {**given, **wanted}),
        "spark.master": chosen,
    }


def _given_settings() -> dict[str, str]:
    """Collect the settings given outside this program: to spark-submit, in PYSPARK_SUBMIT_ARGS, in a defaults file."""
    if _is_submitted():
        SparkContext._ensure_initialized()  # connects to the JVM that started this program and has them
        given = dict(SparkConf().getAll())
        if given.get("spark.app.name") == Path(sys.argv[0]).name:
            del given["spark.app.name"]  # spark-submit's own choice, nobody's wish
        return given
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and "SPARK_HOME" in os.environ:
        folder = str(Path(os.environ["SPARK_HOME"], "conf"))
    of_machine = _read_properties(Path(folder, "spark-defaults.conf")) if folder else {}
    return {**of_machine, **_read_arguments(os.environ.get(_ARGUMENTS, ""))[0]}


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _read_properties(path: Traversable) -> dict[str, str]:
    return dict(_PROPERTY.findall(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _read_arguments(arguments: str) -> tuple[dict[str, str], list[str]]:
    """Read the settings among spark-submit's arguments, which would otherwise be overruled here, and the rest."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--master", dest="spark.master")
    parser.add_argument("--name", dest="spark.app.name")
    parser.add_argument("--driver-memory", dest="spark.driver.memory")
    parser.add_argument("--driver-java-options", dest="spark.driver.extraJavaOptions")
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file")
    # Joined, since argparse takes no value that looks like an option.
    joined = re.sub(r"(--driver-java-options)\s+", r"\1=", arguments)
    known, rest = parser.parse_known_args(shlex.split(joined))
    options = vars(known)
    file, pairs = options.pop("properties_file"), (pair.partition("=") for pair in options.pop("conf"))
    flags = {name: value for name, value in options.items() if value is not None}
    of_file = {} if file is None else _read_properties(Path(file))
    return {**of_file, **{name: value for name, _, value in pairs}, **flags}, rest


def _local_settings() -> dict[str, str]:
    settings = {
        # Python workers of the driver's own environment, whatever python3 is on PATH.
        "spark.pyspark.python": sys.executable,
        # No look-up of this machine's name, which may fail, and nothing open to the network.
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.ui.enabled": "false",
        # Spark's 200 are for clusters: here they are 200 tasks one after the other, and as many files in each table.
        "spark.sql.shuffle.partitions": str(min(200, _PARTITIONS_PER_CORE * (os.cpu_count() or 1))),
    }
    if not _is_submitted():  # else the JVM has its memory already
        # A quarter, from 1 to 8 GiB: the Python workers need theirs.
        heap = min(max(machine_memory() // 4, 1024 * _MIB), 8 * 1024 * _MIB)
        settings["spark.driver.memory"] = f"{heap // _MIB}m"
        # What may be collected is bounded by our own limits, by ratings and by memory.
        settings["spark.driver.maxResultSize"] = "0"
    return settings


def _java_options(master: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Options of the JVMs that this session starts, after those that the caller wants for them."""
    configured = "SPARK_HOME" in os.environ or "SPARK_CONF_DIR" in os.environ
    # What Spark logs is in a file, by name: a folder on the class path would exclude class archives.
    logs = "" if configured else f"-Dlog4j2.configurationFile={(conf_directory() / 'log4j2.properties').as_uri()}"
    starts_driver, is_local = not _is_submitted(), master.startswith("local")
    ours: dict[str, list[str]] = {}
    if starts_driver:
        ours["driver"] = [logs, _collector(wanted, "driver") if is_local else ""]
    if not is_local or master.startswith("local-cluster"):
        ours["executor"] = [logs if is_local else "", _collector(wanted, "executor")]
    names = {jvm: f"spark.{jvm}.defaultJavaOptions" for jvm in ours}
    options = {names[jvm]: " ".join(filter(None, [wanted.get(names[jvm]), *own])) for jvm, own in ours.items()}
    return {name: text for name, text in options.items() if text}


def _collector(wanted: Mapping[str, str], jvm: str) -> str:
    """Choose a garbage collector, unless a setting or the environment has: two named together stop a JVM.

    Blocks are arrays of tens of megabytes, which G1 never moves. Of 100M ratings it ran out of a heap of 6 GB, and of
    6M in both stages out of one of 1 GB. Parallel went on in both.
    """
    settings = [f"spark.{jvm}.defaultJavaOptions", f"spark.{jvm}.extraJavaOptions"]
    settings += [f"spark.executorEnv.{name}" for name in _OF_EVERY_JVM]
    options = [*map(wanted.get, settings), *map(os.environ.get, _OF_EVERY_JVM)]
    return "" if any(_NAMES_A_COLLECTOR.search(text or "") for text in options) else "-XX:+UseParallelGC"


def _quieten() -> None:
    """Have the JVM of spark-submit log what one that is started here would, unless somebody has configured its log.

    By default it logs every task. It configures its log once more when a context is made, so this comes afterwards.
    """
    jvm: Any = SparkContext._jvm
    homes = [os.environ.get("SPARK_CONF_DIR"), os.path.join(os.environ.get("SPARK_HOME", ""), "conf")]
    named = [jvm.System.getProperty(name) for name in ("log4j2.configurationFile", "log4j.configurationFile")]
    if any(named) or any(home and Path(home, "log4j2.properties").is_file() for home in homes):
        return
    configurator = jvm.org.apache.logging.log4j.core.config.Configurator
    file = conf_directory() / "log4j2.properties"
    if file.is_file():
        jvm.System.setProperty("dcrec.log", os.environ.get("DCREC_LOG", "plain"))
        configurator.reconfigure(jvm.java.net.URI(file.as_uri()))
    else:  # in a zip file
        configurator.setRootLevel(jvm.org.apache.logging.log4j.Level.WARN)


def name_run(spark: SparkSession, **names: str) -> None:
    """Name a run in the lines that the JVM logs from now on."""
    if is_classic(spark):
        jvm: Any = spark._jvm
        for name, value in names.items():
            jvm.System.setProperty(f"dcrec.{name}", value)


def jvm_limits(spark: SparkSession) -> tuple[float, float]:
    """Return how many bytes the driver's JVM may take, and how many of results Spark collects into it at once."""
    if not is_classic(spark):
        return math.inf, _CONNECT_RESULTS
    jvm: Any = spark._jvm
    results = spark.sparkContext._jsc.sc().conf().getSizeAsBytes("spark.driver.maxResultSize", "1g")
    return float(jvm.java.lang.Runtime.getRuntime().maxMemory()), float(results or math.inf)


def machine_memory() -> int:
    """Measure the bytes of memory this process may use: the machine's, or less in a container."""
    limits = [path.read_text().strip() for path in _CONTAINER_LIMITS if path.is_file()]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(int(limit) for limit in limits if limit.isdigit())])


def _prepare_process(settings: Mapping[str, str]) -> None:
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]  # the driver reads it from here only
    if _is_submitted() or SparkContext._gateway is not None:
        return
    ensure_java()
    _require_open_files()
    _require_scratch(settings)
    if settings["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def _require_open_files() -> None:
    """Raise the limit of open files as far as this user may. Raises ConfigError: Java would not start with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= _OPEN_FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < _OPEN_FILES:
        raise ConfigError(
            f"this process may open {hard} files, and Spark needs {_OPEN_FILES} or more: raise ulimit -n, or "
            "LimitNOFILE of the service"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))


def _require_scratch(settings: Mapping[str, str]) -> None:
    """Raise ConfigError where Spark could write to none of its local directories: its JVM would end."""
    given = os.environ.get("SPARK_LOCAL_DIRS") or settings.get("spark.local.dir")
    problems = []
    for folder in (given or tempfile.gettempdir()).split(","):
        try:
            Path(folder.strip()).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder.strip()):
                return
        except OSError as error:
            problems.append(str(error))
    raise ConfigError(
        f"setting spark.conf.spark.local.dir: no directory that Spark can write to: {'; '.join(problems)}"
    )


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM in a process group of its own, if it is this process that starts it.

    A signal to the group of this process would otherwise stop the JVM too, which could then not clear up. It ends when
    this process does: its standard input ends.
    """
    if SparkContext._gateway is None and not _is_submitted():
        before = os.environ.get(_ARGUMENTS)
        rest = _read_arguments(before or "")[1] or ["pyspark-shell"]
        # Everybody on the machine may read the command line of the JVM, and this user alone a temporary file.
        with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
            file.writelines(f"{_escape(name)}={_escape(value)}\n" for name, value in settings.items())
            file.flush()
            os.environ[_ARGUMENTS] = shlex.join(["--properties-file", file.name, *rest])
            try:
                gateway = launch_gateway(None, {"process_group": 0})  # type: ignore[no-untyped-call]
            except PySparkRuntimeError as error:
                options = " ".join([*os.environ.values(), *settings.values()])
                folders = re.findall(r"-Djava\.io\.tmpdir=(\S+)", options) or [tempfile.gettempdir()]
                raise ConfigError(
                    "Java ended before Spark had started; the lines above say why. Often it may not write to its "
                    f"temporary folder (java.io.tmpdir is {folders[-1]}), does not know an option, or has too little "
                    "memory (spark.driver.memory)"
                ) from error
            finally:
                del os.environ[_ARGUMENTS]
                if before is not None:
                    os.environ[_ARGUMENTS] = before
        SparkContext._ensure_initialized(gateway=gateway)


def _escape(text: str) -> str:
    """Write a name or a value as Java reads it in a file of properties."""
    return re.sub(r"[\\ :=#!]", r"\\\g<0>", text).replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def scratch_places(session: SparkSession | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Name the directories that Spark writes to on its way, by the settings that say where. Several have commas.

    session : None where it did not start. conf : what it was to start with.
    """
    if session is not None and not is_classic(session):  # Spark Connect keeps its paths to itself
        return {}
    context = None if session is None else session.sparkContext
    conf = conf if context is None else dict(context.getConf().getAll())
    scratch = os.environ.get("SPARK_LOCAL_DIRS") or conf.get("spark.local.dir") or tempfile.gettempdir()
    places = {"spark.local.dir": scratch, "spark.checkpoint_dir": context and context.getCheckpointDir()}
    return {setting: path for setting, path in places.items() if path}


def conf_directory() -> Path:
    """Find the folder of Spark's defaults and logging: inside an installed package, next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def conf_file(name: str) -> Traversable:
    """Find a file of that folder, where the package is a zip file too: one that --py-files brought."""
    inside = files(__package__.partition(".")[0]) / "conf"
    return inside / name if inside.is_dir() else conf_directory() / name


def _stop(session: SparkSession) -> None:
    if session.sparkContext._jsc is not None:  # else it was stopped before
        with suppress(Py4JError, OSError):  # the JVM was stopped with this process
            session.stop()
