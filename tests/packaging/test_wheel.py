"""The wheel, installed alone into an empty environment, fits a model; with its extra ``jobs`` it has a command."""

import os
import re
import sys
from pathlib import Path

import pytest

from dcrec_spark.errors import EXTRAS
from dcrec_spark.spark.java import ensure_java
from dcrec_spark.version import __version__
from tests.spark.standalone import ROOT, finished

pytestmark = pytest.mark.process

FIT = """
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(u, i, 1.0 + (u * i) % 5) for u in range(12) for i in range(10) if (u + 2 * i) % 3]
ratings = spark.createDataFrame(rows, "user int, item int, rating double")
model = DeconfoundedMF(rank=2, exposureRank=2, maxIter=3, seed=1).fit(ratings)
top = model.recommendForAllUsers(3, seen=ratings).collect()
print(len(top), {len(row["recommendations"]) for row in top})
"""


def run(*command: object, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = finished(*command, env=environment, cwd=cwd, seconds=800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(python: Path, *requirements: str) -> None:
    constraints = ROOT / "conf" / "constraints.txt"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--use-pep517", "--constraint", constraints, *requirements)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    install(folder / "bin" / "python", str(wheel))
    return folder


@pytest.fixture(scope="module")
def activated(environment: Path) -> dict[str, str]:
    """Environment variables as ``activate`` leaves them, with a Java that may come from the tests' environment."""
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "PYTHON", "DCREC"))}
    path = f"{environment / 'bin'}{os.pathsep}{inherited['PATH']}"
    return {**inherited, "PATH": path, "VIRTUAL_ENV": str(environment), "JAVA_HOME": str(ensure_java().path)}


def test_alone_it_fits_and_recommends(activated: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "fit.py"
    program.write_text(FIT, encoding="utf-8")
    assert run("python", program, environment=activated, cwd=tmp_path).splitlines()[-1] == "12 {3}"


def test_alone_it_brings_none_of_the_extras_and_its_command_says_what_to_install(
    activated: dict[str, str], tmp_path: Path
) -> None:
    packages = [package for extra in EXTRAS.values() for package in extra]
    program = f"from importlib.util import find_spec; print([p for p in {packages} if find_spec(p)])"
    assert run("python", "-c", program, environment=activated, cwd=tmp_path) == "[]\n"
    refused = finished("dcrec", "--help", env=activated, cwd=tmp_path)
    assert refused.returncode == 2
    assert re.fullmatch(r"click, .* are not installed, .*: pip install 'dcrec-spark\[jobs\]'\n", refused.stderr)


def test_with_its_extra_it_runs_jobs(wheel: Path, environment: Path, activated: dict[str, str], tmp_path: Path) -> None:
    """The last test: it adds to the environment."""
    install(environment / "bin" / "python", f"{wheel}[jobs]")
    assert run("dcrec", "--version", environment=activated, cwd=tmp_path) == f"dcrec, version {__version__}\n"
    help_text = run("dcrec", "--help", environment=activated, cwd=tmp_path)
    for command in ("retrain", "recommend", "fold-in", "evaluate", "tune", "settings"):
        assert re.search(rf"^  {command}  +\w", help_text, re.MULTILINE), command
    (tmp_path / "ratings.csv").write_text(
        "user,item,rating\n" + "".join(f"{n % 5},{n % 7},{n % 4 + 1}\n" for n in range(35) if n % 3)
    )
    ranks = ("outcome.rank=2", "exposure.rank=2", "outcome.reg_param=0.5")
    given = ("input.format=csv", "input.path=ratings.csv", "output.path=tables", *ranks)
    run("dcrec", "retrain", *(word for one in given for word in ("--set", one)), environment=activated, cwd=tmp_path)
    assert (tmp_path / "tables" / "CURRENT").exists()
    refused = finished("dcrec", "tune", "--set", "output.path=search", env=activated, cwd=tmp_path)
    assert refused.returncode == 2
    assert "pip install 'dcrec-spark[tune]'" in refused.stderr
