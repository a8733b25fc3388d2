"""Fetch the Java archives that warehouses need into a folder, with the Ivy that comes with pyspark.

``python -m dcrec_spark.spark.jars FOLDER [ARTIFACT ...]`` fetches those that conf/jars.txt lists, or the named ones,
checks them against their checksums, and writes what ``spark.jars`` takes to standard output. What is there stays.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyspark

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.java import ensure_java
from dcrec_spark.spark.session import conf_file

LIST = "jars.txt"
TIMEOUT_SECONDS = 300
# Each is a process that mostly waits for the network.
SIDE_BY_SIDE = 4
# A Java that pip installed trusts the authorities in its own store only; the system's store knows those of a proxy.
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


class Jar(NamedTuple):
    """One archive, by its coordinates, and the checksum that it has to have.

    version : with a classifier, for what an artifact has besides its main archive: ``1.0:tests``.
    purpose : what needs it with others.
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


def listed_jars() -> list[Jar]:
    """Read conf/jars.txt."""
    lines = conf_file(LIST).read_text(encoding="utf-8").splitlines()
    return [Jar(*line.split()) for line in lines if line.strip() and not line.startswith("#")]


def fetch_jars(folder: Path, artifacts: Sequence[str] = ()) -> list[Path]:
    """Bring archives into a folder. One that is there with its checksum is not fetched again.

    folder : Made if it is not there. artifacts : Beginnings of artifacts' names, such as ``iceberg`` or ``postgresql``,
    or what many are for: ``s3``. None: all.
    Raises ConfigError: one is not listed, can not be fetched, or is another file than the checksum says.
    """
    chosen = [jar for jar in listed_jars() if not artifacts or any(_is_meant(jar, name) for name in artifacts)]
    missing = [name for name in artifacts if not any(_is_meant(jar, name) for jar in chosen)]
    if missing:
        raise ConfigError(f"conf/{LIST} lists no artifact that begins with {', '.join(missing)}")
    return bring_jars(folder, chosen)


def _is_meant(jar: Jar, name: str) -> bool:
    return jar.purpose == name if jar.purpose else jar.artifact.startswith(name)


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


def main() -> None:
    """Fetch, and write the value of ``spark.jars``."""
    if len(sys.argv) < 2:
        sys.stderr.write("usage: python -m dcrec_spark.spark.jars FOLDER [ARTIFACT ...]\n")
        sys.exit(ConfigError.exit_code)
    try:
        paths = fetch_jars(Path(sys.argv[1]), sys.argv[2:])
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    sys.stdout.write(",".join(str(path.resolve()) for path in paths) + "\n")


if __name__ == "__main__":
    main()
