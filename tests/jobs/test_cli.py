"""The command line: a stranger finds the jobs, their options and what their exit codes mean, without Spark."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.shell_completion import BashComplete

from dcrec_spark.config.jobs import JOB_CONFIGS, RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs import runner
from dcrec_spark.jobs.cli import JOBS, dcrec
from dcrec_spark.jobs.job import Job
from dcrec_spark.version import __version__
from tests.jobs.job import dcrec_with

ROOT = Path(__file__).resolve().parents[2]


def test_the_help_lists_each_job() -> None:
    assert dcrec_with("--version").output == f"dcrec, version {__version__}\n"
    finished = dcrec_with("--help")
    assert finished.exit_code == 0
    assert max(map(len, finished.output.splitlines())) <= 80
    for heading in ("Commands:", "Settings", "Exit codes"):
        assert heading in finished.output
    for entry in JOBS:
        assert f"{entry.command} " in finished.output
        assert entry.summary in finished.output


@pytest.mark.parametrize("command", dcrec.commands)
def test_help_fits_a_terminal_of_80_columns_and_says_what_a_job_reads_and_publishes(command: str) -> None:
    shown = dcrec_with(command, "--help").output
    assert max(map(len, shown.splitlines())) <= 80
    if command in {entry.command for entry in JOBS}:
        words = "\n  Reads ", "\n  Publishes ", "--config FILE", "--set A.B=VALUE", "--dry-run", f"dcrec {command} "
        assert [word for word in words if word not in shown] == []


def test_every_job_is_a_command_and_its_script_the_same() -> None:
    configured = {kind.job for kind in JOB_CONFIGS}
    assert {entry.command.replace("-", "_") for entry in JOBS} == configured
    for entry in JOBS:
        job = entry.load()
        assert isinstance(job, Job)
        assert job.config_type.job == entry.command.replace("-", "_")
        script = (ROOT / "jobs" / f"{job.config_type.job}.py").read_text(encoding="utf-8")
        assert f'main("{entry.command}")' in script


def test_all_settings_are_printed_as_a_file_that_a_job_takes(tmp_path: Path) -> None:
    printed = dcrec_with("settings")
    assert printed.exit_code == 0
    file = tmp_path / "all.yaml"
    file.write_text(printed.output, encoding="utf-8")
    assert load_config(RetrainConfig, file) == load_config(RetrainConfig)


def test_the_help_of_plan_shows_its_defaults_which_are_those_of_the_settings() -> None:
    shown, settings = " ".join(dcrec_with("plan", "--help").output.split()), RetrainConfig()
    for default in (settings.outcome.rank, settings.exposure.rank, settings.engine.precision, 4):
        assert f"[default: {default}" in shown


def test_what_is_no_command_or_option_is_refused() -> None:
    assert dcrec_with("retrian").exit_code == 2
    refused = dcrec_with("retrain", "--dryrun")
    assert refused.exit_code == 2
    assert "No such option" in refused.output
    missing = dcrec_with("retrain", "--config", "none.yaml")
    assert missing.exit_code == 2
    assert "none.yaml: cannot be read" in json.loads(missing.stderr.splitlines()[-1])["event"]


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        ([], "fo", ["fold-in"]),
        (["retrain"], "--dr", ["--dry-run"]),
        (["retrain", "--set"], "outcome.ra", ["outcome.rank="]),
        (
            ["fold-in", "--set"],
            "recommend.ex",
            [f"recommend.{n}=" for n in ("exclude_seen", "exposure_weight", "exclude")],
        ),
        (["fold-in", "--set"], "outcome.", []),
    ],
)
def test_commands_options_and_settings_are_completed(words: list[str], typed: str, expected: list[str]) -> None:
    completion = BashComplete(dcrec, {}, "dcrec", "_DCREC_COMPLETE")
    assert [item.value for item in completion.get_completions(words, typed)] == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("outcome: {rank: abc}", "setting outcome.rank: found 'abc'"),
        ("outcomes: {rank: 3}", "unknown setting outcomes"),
        ("recommend: {top_n: 3}", "Spark needs Java"),
    ],
)
def test_a_run_that_fails_before_it_begins_leaves_its_record_and_metrics_and_names_itself_in_its_log(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        runner, "start_session", Mock(side_effect=ConfigError("Spark needs Java 17 or 21, none was found"))
    )
    (tmp_path / "nightly.yaml").write_text(
        f"{line}\noutput: {{path: {tmp_path}/out}}\nrun: {{metrics_file: {tmp_path}/dcrec.prom, name: nightly}}\n"
    )
    finished = dcrec_with("retrain", "--config", f"{tmp_path}/nightly.yaml", "--set", "run.run_date=2026-11-20")
    assert finished.exit_code == 2
    assert 'dcrec_run_exit_code{job="retrain",name="nightly"} 2.0' in (tmp_path / "dcrec.prom").read_text()
    (record,) = (tmp_path / "out" / "failed").glob("*/run.json")
    facts = json.loads(record.read_text())
    assert said in facts["error"]
    logged = json.loads(finished.stderr.splitlines()[-1])
    about = {"run_id": facts["run_id"], "job": "retrain", "run_date": "2026-11-20", "exit_code": 2}
    assert {name: logged[name] for name in about} == about
