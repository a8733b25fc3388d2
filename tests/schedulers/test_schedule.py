"""The line of a crontab and the settings of OpenLineage in docs/how-to/schedule.md."""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from dcrec_spark.spark.jars import Jar, bring_jars
from tests.clusters.commands import HOW_TO, blocks_of, with_values
from tests.jobs.job import options_of, record_of, run_directory, small_job
from tests.spark.standalone import ROOT, environment, finished, spark_home

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(900)]

# Says what it was given, and ends as the job does that found another publisher.
STAND_IN = '#!/bin/sh\nfor word; do echo "<$word>"; done\necho "a line of the log" >&2\nexit 5\n'


def as_cron_runs_it(line: str) -> str:
    """The command of a line: after five fields; cron takes a bare % for the end of it, and \\% for %."""
    *times, command = line.split(None, 5)
    assert len(times) == 5
    assert re.fullmatch(r"[\d*/,-]+", "".join(times))
    assert not re.search(r"(?<!\\)%", command), "cron would cut the command here"
    return command.replace("\\%", "%")


def test_the_line_runs_the_job_for_today_and_keeps_its_log(tmp_path: Path) -> None:
    (line,) = blocks_of(HOW_TO / "schedule.md", "cron", "bash")
    command = as_cron_runs_it(line.strip())
    dcrec = tmp_path / ".venv" / "bin" / "dcrec"
    dcrec.parent.mkdir(parents=True)
    dcrec.write_text(STAND_IN)
    dcrec.chmod(0o755)
    command = command.replace("/srv/recommender", str(tmp_path))
    assert str(tmp_path) in command
    before = datetime.now(UTC).date()

    # All that cron gives to a command.
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SHELL": "/bin/sh"}
    ran = finished("/bin/sh", "-c", command, env=bare, cwd="/")

    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "", "")
    given = (tmp_path / "retrain.out").read_text().split()
    days = {f"<run.run_date={day}>" for day in (before, datetime.now(UTC).date())}
    assert given[:-1] == ["<retrain>", "<--config>", "<nightly.yaml>", "<--set>"]
    assert given[-1] in days
    assert (tmp_path / "retrain.log").read_text() == "a line of the log\n"


SHA256 = "5d84b0ae7e72909b5aae7ed87df878bf06b28d9ac3005765c3529d0a66dbae6f"
OPENLINEAGE = Jar("io.openlineage", "openlineage-spark_2.13", "1.53.0", SHA256)


def test_events_name_the_ratings_each_table_with_its_rows_and_the_namespace_of_the_settings(tmp_path: Path) -> None:
    (block,) = blocks_of(HOW_TO / "schedule.md", "OpenLineage", "yaml")
    settings = yaml.safe_load(with_values(block, {"/var/log/dcrec": str(tmp_path)}))
    coordinates = settings["spark"]["conf"].pop("spark.jars.packages")
    assert coordinates == ":".join(OPENLINEAGE[:3])
    settings["spark"]["conf"]["spark.jars"] = str(bring_jars(ROOT / "build" / "jars", [OPENLINEAGE])[0])
    (tmp_path / "lineage.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")

    options = options_of(small_job(tmp_path, 20, 15, "item "))
    command = [sys.executable, ROOT / "jobs/retrain.py", "--config", "lineage.yaml", *options]
    done = finished(*command, env=environment(spark_home(tmp_path)), cwd=tmp_path, seconds=800)

    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "lineage.jsonl").read_text().splitlines()]
    inputs = {dataset["name"] for event in events for dataset in event.get("inputs", [])}
    assert str(tmp_path / "ratings.csv") in inputs
    assert {event["job"]["namespace"] for event in events} == {"dcrec"}
    outputs = [each for event in events if event["eventType"] == "COMPLETE" for each in event.get("outputs", [])]
    counted = {Path(each["name"]).name: each["outputFacets"].get("outputStatistics") for each in outputs}
    rows = {name: statistics.get("rowCount") for name, statistics in counted.items() if statistics}
    tables = record_of(run_directory(tmp_path / "out"))["tables"]
    names = ("recommendations", "user_factors", "item_factors")
    assert {name: rows.get(name) for name in names} == {name: tables[name] for name in names}
