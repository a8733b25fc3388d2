"""Java archives: listed with checksums, fetched once, refused when they are others."""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark import jars
from dcrec_spark.spark.jars import Jar, fetch_jars, listed_jars

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

    monkeypatch.setattr(jars, "listed_jars", lambda: [WANTED])
    monkeypatch.setattr(jars, "_run_ivy", ivy)
    return made


def test_every_archive_has_coordinates_and_a_checksum_and_no_address() -> None:
    listed = listed_jars()
    assert {jar.artifact.split("-")[0] for jar in listed if not jar.purpose} == {
        "iceberg", "sqlite", "delta", "postgresql"
    }  # fmt: skip
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


@pytest.mark.parametrize(("version", "classifier"), [("1.0", None), ("1.0:tests", "tests")])
def test_ivy_is_asked_for_one_archive_by_its_classifier_too(version: str, classifier: str | None) -> None:
    wanted = WANTED._replace(version=version)
    module = ElementTree.fromstring(wanted.module)
    (dependency,), (artifact,) = module.iter("dependency"), module.iter("artifact")
    assert (dependency.get("rev"), dependency.get("transitive")) == ("1.0", "false")
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == classifier
    assert wanted.file_name == f"thing-1.0{'-tests' if classifier else ''}.jar"


def test_another_archive_than_the_listed_one_is_refused(
    tmp_path: Path, calls: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "listed_jars", lambda: [WANTED._replace(sha256="0" * 64)])
    with pytest.raises(ConfigError, match=r"thing-1.0.jar has the SHA-256 .*it is another file"):
        fetch_jars(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"conf/jars.txt lists no artifact that begins with nothing"):
        fetch_jars(tmp_path, ["nothing"])
    answer = subprocess.CompletedProcess((), 1, "unresolved dependency", "")
    monkeypatch.setattr(jars, "_run_ivy", lambda *_command: answer)
    with pytest.raises(ConfigError, match=r"org.example:thing:1.0 could not be fetched; Ivy says:\nunresolved"):
        fetch_jars(tmp_path)
