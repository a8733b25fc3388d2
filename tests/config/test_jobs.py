"""Settings of each job; files may be shared over jobs, ``--set`` may not name another job's."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dcrec_spark.config.jobs import (
    JOB_CONFIGS,
    AllSettings,
    FoldInConfig,
    RecommendJobConfig,
    RetrainConfig,
    TuneConfig,
    known_settings,
)
from dcrec_spark.config.load import config_hash, load_config
from dcrec_spark.config.sections import JobConfig
from dcrec_spark.errors import ConfigError

SHARED_FILE = """
input: {path: ratings.parquet}
outcome: {rank: 7}
tuning: {trials: 5, metric: "${env:DCREC_NOT_SET}"}
model: {path: saved, warm_start: previous}
"""


def shared_file(folder: Path, text: str = SHARED_FILE) -> Path:
    file = folder / "shared.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_reference_holds_the_settings_of_all_jobs_and_no_others() -> None:
    of_jobs = {name for kind in JOB_CONFIGS for name in known_settings(kind)}
    assert set(known_settings(AllSettings)) == of_jobs


def test_a_setting_has_the_same_type_and_default_in_all_jobs_that_have_it() -> None:
    reference = AllSettings(run={"run_date": "2026-01-31"}).model_dump()  # type: ignore[arg-type]
    for kind in JOB_CONFIGS:
        for section, values in kind(run={"run_date": "2026-01-31"}).model_dump().items():  # type: ignore[arg-type]
            assert values.items() <= reference[section].items(), (kind, section)


def test_jobs_share_a_file_and_each_takes_its_own_settings(tmp_path: Path) -> None:
    """A variable that only another job's setting needs may be missing from the environment."""
    with capture_logs() as logged:
        config = load_config(RetrainConfig, shared_file(tmp_path))
    assert (config.input.path, config.outcome.rank, config.model.warm_start) == ("ratings.parquet", 7, "previous")
    assert load_config(FoldInConfig, shared_file(tmp_path)).model.path == "saved"
    assert [entry["settings"] for entry in logged] == [["tuning.trials", "tuning.metric", "model.path"]]
    assert config_hash(config) == config_hash(load_config(RetrainConfig, None, ["outcome.rank=7"]))


@pytest.mark.parametrize(
    ("kind", "override", "jobs"),
    [
        (RetrainConfig, "tuning.trials=3", "tune"),
        (RetrainConfig, "model.path=saved", "recommend, fold_in and evaluate"),
        (FoldInConfig, "recommend.users=some.csv", "recommend"),
        (RecommendJobConfig, "audit.max_loss=1", "retrain"),
        (TuneConfig, "recommend={top_n: 3}", "retrain, recommend, "),
    ],
)
def test_the_command_line_names_settings_of_its_own_job_only(kind: type[JobConfig], override: str, jobs: str) -> None:
    name = override.split("=")[0]
    with pytest.raises(ConfigError, match=rf"^unknown setting for the job {kind.job}: {name}.* is a setting of {jobs}"):
        load_config(kind, None, [override])
