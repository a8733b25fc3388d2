"""OpenLineage by configuration alone, that of docs/how-to/schedule.md: what its events say of a run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcrec_spark.spark.jars import Jar, bring_jars
from tests.clusters.commands import HOW_TO, blocks_of, with_values
from tests.jobs.job import SMALL, options_of, record_of, run_directory
from tests.spark.standalone import ROOT, environment, spark_home

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(900)]

LIST = Path(__file__).with_name("jars.txt")
PAIRS = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},item {item},{1 + (user * item) % 5}" for user, item in PAIRS)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the job was run with the page's settings, with an archive that was brought before."""
    folder = tmp_path_factory.mktemp("lineage")
    (block,) = blocks_of(HOW_TO / "schedule.md", "OpenLineage", "yaml")
    settings = yaml.safe_load(with_values(block, {"/var/log/dcrec": str(folder)}))
    coordinates = settings["spark"]["conf"].pop("spark.jars.packages")
    (jar,) = (Jar(*line.split()) for line in LIST.read_text().splitlines() if not line.startswith("#"))
    assert coordinates == f"{jar.group}:{jar.artifact}:{jar.version}"
    settings["spark"]["conf"]["spark.jars"] = str(bring_jars(ROOT / "build" / "jars", [jar])[0])
    (folder / "lineage.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    places = {"input.format": "csv", "input.path": "ratings.csv", "output.path": folder / "out"}
    overrides = options_of({**SMALL, **places})
    done = subprocess.run(
        [sys.executable, ROOT / "jobs" / "retrain.py", "--config", "lineage.yaml", *overrides],
        env=environment(spark_home(folder)), cwd=folder, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def events(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "lineage.jsonl").read_text().splitlines()]


def test_the_ratings_are_an_input(events: list[dict[str, Any]], place: Path) -> None:
    inputs = {dataset["name"] for event in events for dataset in event.get("inputs", [])}
    assert str(place / "ratings.csv") in inputs


def test_each_table_is_an_output_with_its_rows(events: list[dict[str, Any]], place: Path) -> None:
    rows: dict[str, int] = {}
    for event in events:
        for dataset in event.get("outputs", []):
            told = dataset.get("outputFacets", {}).get("outputStatistics", {}).get("rowCount")
            if event["eventType"] == "COMPLETE" and told is not None:
                rows[Path(dataset["name"]).name] = told
    tables = record_of(run_directory(place / "out"))["tables"]
    assert {name: rows.get(name) for name in ("recommendations", "user_factors", "item_factors")} == {
        name: tables[name] for name in ("recommendations", "user_factors", "item_factors")
    }


def test_the_namespace_is_that_of_the_settings(events: list[dict[str, Any]]) -> None:
    assert {event["job"]["namespace"] for event in events} == {"dcrec"}
