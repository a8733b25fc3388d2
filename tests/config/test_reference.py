"""The generated reference: conf/base.yaml and the settings page; the other files in conf/."""

from pathlib import Path

import pytest

from dcrec_spark.config.jobs import JOB_CONFIGS, AllSettings
from dcrec_spark.config.load import load_config, read_yaml
from docs.hooks.settings_page import as_yaml, base_yaml, documented
from tests.clusters.commands import HOW_TO, blocks_of

CONF = Path(__file__).resolve().parents[2] / "conf"


def test_base_yaml_is_what_the_settings_generate() -> None:
    """After a change: python docs/hooks/settings_page.py base.yaml > conf/base.yaml."""
    assert (CONF / "base.yaml").read_text(encoding="utf-8") == base_yaml()


def test_base_yaml_has_every_setting_with_its_default_and_its_meaning() -> None:
    assert [line for line in base_yaml().splitlines() if line and ("#" not in line or len(line) > 120)] == []
    written, defaults = read_yaml(base_yaml()), AllSettings().model_dump(mode="json")
    assert written["run"].pop("run_date") is None
    defaults["run"].pop("run_date")
    assert written == defaults
    for section, field in AllSettings.model_fields.items():
        for setting, _, _, meaning in documented(field.annotation, f"{section}."):
            assert len(meaning) > 8, f"{section}.{setting}"
            assert "None" not in meaning, f"{section}.{setting}"


@pytest.mark.parametrize(
    "value", [None, True, 1e-5, 40.0, 1e12, ["ndcg@10", "x y"], "", "off", "010", "1:30", "null", "# no comment"]
)
def test_values_are_written_so_that_yaml_reads_them_as_they_were(value: object) -> None:
    assert read_yaml(as_yaml(value)) == value


@pytest.mark.parametrize("name", ["base.yaml", "demo.yaml", "cluster.yaml", "tune.yaml"])
def test_every_file_in_conf_loads_for_every_job(name: str) -> None:
    for kind in JOB_CONFIGS:
        assert load_config(kind, CONF / name).job == kind.job


def test_the_page_on_clusters_shows_the_file_in_conf() -> None:
    assert (CONF / "cluster.yaml").read_text() in blocks_of(HOW_TO / "run-on-a-cluster.md", "A configuration", "yaml")
