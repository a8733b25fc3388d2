"""The line of a crontab in docs/how-to/schedule.md, run as cron would run it."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clusters.commands import HOW_TO, blocks_of
from tests.spark.standalone import finished

pytestmark = pytest.mark.scheduler

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
