"""Light to install: the estimators need none of the extras, and a part that needs one says which."""

import json
import re
import sys
import tomllib
from importlib.metadata import distributions
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from dcrec_spark.errors import EXTRAS
from tests.spark.standalone import ROOT, finished

# Tells, as JSON on its last line, what can be imported where the packages of all extras are hidden.
PROGRAM = """
import json, sys
from importlib import import_module

hidden = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(hidden))  # what is None there cannot be imported
import dcrec_spark

names = sorted(name for name in dcrec_spark.__all__ if getattr(dcrec_spark, name, None) is not None)
refused = {}
for module in json.loads(sys.argv[2]):
    try:
        import_module(module)
    except dcrec_spark.errors.DcrecError as error:
        refused[module] = str(error)
print(json.dumps({"names": names, "refused": refused}))
"""
NEED_AN_EXTRA = {
    "dcrec_spark.config": "jobs",
    "dcrec_spark.data.read": "jobs",
    "dcrec_spark.report.page": "report",
    "dcrec_spark.plots": "report",
    "dcrec_spark.jobs.tune.job": "tune",
    "dcrec_spark.publish.postgresql": "warehouse",
}


@pytest.fixture(scope="module")
def without_extras() -> dict[str, Any]:
    hidden = [package for packages in EXTRAS.values() for package in packages]
    command = [sys.executable, "-c", PROGRAM, json.dumps(hidden), json.dumps(list(NEED_AN_EXTRA))]
    run = finished(*command, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return dict(json.loads(run.stdout.splitlines()[-1]))


def test_the_public_names_need_no_extra(without_extras: dict[str, Any]) -> None:
    assert {"DeconfoundedMF", "PoissonFactorization", "RatingEvaluator", "read_current"} <= set(without_extras["names"])


@pytest.mark.parametrize("module", NEED_AN_EXTRA)
def test_what_needs_an_extra_says_which(module: str, without_extras: dict[str, Any]) -> None:
    extra = NEED_AN_EXTRA[module]
    message = without_extras["refused"][module]
    assert message.endswith(f"not installed, which this part of dcrec-spark needs: pip install 'dcrec-spark[{extra}]'")


def test_the_extras_are_those_of_the_package() -> None:
    distributions = {"sklearn": "scikit-learn", "yaml": "pyyaml", "psycopg": "psycopg[binary]"}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, packages in EXTRAS.items():
        required = {text.split(">")[0].lower() for text in declared["optional-dependencies"][extra] if "<4" not in text}
        assert {distributions.get(package, package) for package in packages} == required, extra
    assert set(declared["optional-dependencies"]["all"]) == {f"dcrec-spark[{','.join(sorted(EXTRAS))}]"}
    base = {text.split(">")[0] for text in declared["dependencies"]}
    assert base == {"numba", "numpy", "pandas", "pyarrow", "pyspark", "scipy", "threadpoolctl", "tqdm", "xxhash"}


def test_every_pin_is_exact() -> None:
    lines = (ROOT / "conf" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line)] == []
    assert len({line.partition("==")[0].lower() for line in pins}) == len(pins)


def test_the_oldest_python_that_is_promised_can_have_every_pinned_version() -> None:
    """Debian 12 has 3.11.2; a version that wants 3.11.5 would end the first command of a newcomer there."""
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    wants = {found.metadata["Name"]: found.metadata["Requires-Python"] or "" for found in distributions()}
    assert {name: want for name, want in wants.items() if f"{oldest}.0" not in SpecifierSet(want)} == {}
