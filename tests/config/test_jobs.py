"""Each job has the settings that it uses; files may be shared over jobs, ``--set`` may not name another job's."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dcrec_spark.config import (
    JOB_CONFIGS,
    AllSettings,
    EvaluateConfig,
    FoldInConfig,
    JobConfig,
    RecommendJobConfig,
    RetrainConfig,
    TuneConfig,
    config_hash,
    load_config,
    resolved,
)
from dcrec_spark.config.names import known_settings
from dcrec_spark.errors import ConfigError

COMMON = ["run", "spark", "output"]
SHARED_FILE = """
input: {path: ratings.parquet}
outcome: {rank: 7}
tuning: {trials: 5}
evaluation: {test_path: "${oc.env:DCREC_NOT_SET}"}
model: {path: saved, warm_start: previous}
"""


def shared_file(folder: Path, text: str = SHARED_FILE) -> Path:
    file = folder / "shared.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("kind", "sections"),
    [
        (
            RetrainConfig,
            [
                "input",
                "validation",
                "exposure",
                "outcome",
                "engine",
                "warehouses",
                "audit",
                "model",
                "exposure_check",
                "recommend",
            ],
        ),
        (RecommendJobConfig, ["input", "validation", "model", "warehouses", "audit", "recommend"]),
        (FoldInConfig, ["input", "validation", "model", "recommend"]),
        (EvaluateConfig, ["input", "validation", "model", "recommend", "evaluation"]),
        (TuneConfig, ["input", "validation", "exposure", "outcome", "engine", "evaluation", "tuning"]),
    ],
)
def test_a_job_has_and_records_the_sections_that_it_uses(kind: type[JobConfig], sections: list[str]) -> None:
    assert list(kind.model_fields) == [*COMMON, *sections]
    assert list(resolved(load_config(kind))) == [*COMMON, *sections]


def test_within_a_section_a_job_has_the_settings_that_it_uses() -> None:
    assert [name for name in known_settings(RetrainConfig) if name.startswith(("model.", "recommend."))] == [
        "model.warm_start",
        "model.checkpoint_seconds",
        "recommend.top_n",
        "recommend.exclude_seen",
        "recommend.catalogue",
        "recommend.exclude",
        "recommend.category",
        "recommend.max_per_category",
        "recommend.intervals",
        "recommend.overlap",
        "recommend.overlap_odds",
        "recommend.fallback",
        "recommend.similar_items",
        "recommend.similarity",
        "recommend.vectors",
        "recommend.changes",
    ]


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
    assert logged == [
        {
            "event": "settings of other jobs are left aside",
            "log_level": "info",
            "file": str(tmp_path / "shared.yaml"),
            "settings": ["tuning.trials", "evaluation.test_path", "model.path"],
        }
    ]


def test_a_setting_may_be_taken_from_one_of_another_job(tmp_path: Path) -> None:
    file = shared_file(tmp_path, "tuning: {trials: 5}\noutcome: {rank: '${tuning.trials}'}")
    assert load_config(RetrainConfig, file, ["exposure.rank=${tuning.min_iter}"]).outcome.rank == 5


def test_a_setting_that_no_job_has_is_refused_in_a_shared_file_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting exposure\.rnk"):
        load_config(RetrainConfig, shared_file(tmp_path, "exposure: {rnk: 3}"))
    with pytest.raises(ConfigError, match=r"unknown setting nonsense: conf/base\.yaml lists all settings"):
        load_config(RetrainConfig, shared_file(tmp_path, "nonsense: {rank: 3}"))


@pytest.mark.parametrize(
    ("kind", "override", "jobs"),
    [
        (RetrainConfig, "tuning.trials=3", "tune"),
        (RetrainConfig, "model.path=saved", "recommend, fold_in and evaluate"),
        (FoldInConfig, "model.warm_start=previous", "retrain"),
        (FoldInConfig, "recommend.users=some.csv", "recommend"),
        (FoldInConfig, "exposure.rank=3", "retrain and tune"),
        (TuneConfig, "evaluation.cuts=[3]", "evaluate"),
        (RecommendJobConfig, "engine={exchange: local}", "retrain and tune"),
    ],
)
def test_the_command_line_names_settings_of_its_own_job_only(kind: type[JobConfig], override: str, jobs: str) -> None:
    name = override.split("=")[0]
    with pytest.raises(ConfigError, match=rf"^unknown setting for the job {kind.job}: {name}.* is a setting of {jobs}"):
        load_config(kind, None, [override])


def test_the_hash_of_a_nightly_run_does_not_know_what_other_jobs_have(tmp_path: Path) -> None:
    with_others = load_config(RetrainConfig, shared_file(tmp_path, "tuning: {trials: 5}\nevaluation: {cuts: [3]}"))
    assert config_hash(with_others) == config_hash(load_config(RetrainConfig))


def test_the_hash_sees_what_the_job_is_about() -> None:
    for kind, override in ((RetrainConfig, "exposure.rank=3"), (EvaluateConfig, "evaluation.cuts=[3]")):
        assert config_hash(load_config(kind, None, [override])) != config_hash(load_config(kind))
