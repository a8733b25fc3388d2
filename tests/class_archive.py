"""Write an archive of the classes that a night loads: ``python -m tests.class_archive FILE``.

JVMs that are given it (``-XX:SharedArchiveFile``) start in less time. Java takes it only with the options and the
class path that it was written with, and goes without where these differ.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
RATINGS = ["user,item,rating", *(f"{u},{i},{1 + (u * i) % 5}" for u in range(12) for i in range(10) if (u + i) % 3)]


def write_archive(file: Path) -> None:
    """Run a small night whose JVM writes the archive as it ends; the file is there when it is whole."""
    with TemporaryDirectory(dir=file.parent) as scratch:
        ratings, archive = Path(scratch, "ratings.csv"), Path(scratch, "classes.jsa")
        ratings.write_text("\n".join(RATINGS))
        settings = {
            "input.path": ratings,
            "input.format": "csv",
            "output.path": Path(scratch, "tables"),
            "exposure.rank": 2,
            "outcome.rank": 2,
            "recommend.top_n": 2,
            "spark.master": "local[2]",
            "spark.conf": f"{{spark.driver.extraJavaOptions: '-Xlog:disable -XX:ArchiveClassesAtExit=\"{archive}\"'}}",
        }
        overrides = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, ROOT / "jobs" / "retrain.py", *overrides]
        # The JVM ends after the job: what it says is read to its end.
        night = subprocess.run(command, capture_output=True, text=True, check=False)
        if night.returncode != 0 or not archive.exists():
            raise RuntimeError(f"no archive was written: the night ended with {night.returncode}\n{night.stderr}")
        archive.replace(file)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]).absolute())
