"""The first five minutes, on data that are drawn and fitted in seconds."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import structlog
import yaml
from click.testing import CliRunner
from pyspark.sql import SparkSession

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.parquet import verify
from dcrec_spark.settings.tables import camel_case
from dcrec_spark.spark.session import conf_directory
from examples import closeness, demo

pytestmark = pytest.mark.job


@pytest.fixture
def output(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demo's tables go: its own settings, but for a few iterations."""
    settings = yaml.safe_load((conf_directory() / "demo.yaml").read_text(encoding="utf-8"))
    settings["exposure"] |= {"max_iter": 5, "rank": 3}
    settings["outcome"] |= {"max_iter": 4, "rank": 3, "reg_param": 1}  # few ratings
    (tmp_path / "demo.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    monkeypatch.setattr(demo, "conf_directory", lambda: tmp_path)
    monkeypatch.setattr(demo, "SIZE", 60)
    for module in (demo, closeness):
        monkeypatch.setattr(module, "SEEDS", (0, 1))
    monkeypatch.setattr(closeness, "EXPOSURE", {"rank": 2, "maxIter": 5})
    monkeypatch.setattr(demo, "OUTPUT", tmp_path / "demo")
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path / "demo"
    structlog.reset_defaults()


def printed(*options: str) -> str:
    result = CliRunner().invoke(demo.demo, list(options), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def row_of(name: str, text: str) -> list[float]:
    (line,) = [line for line in text.splitlines() if re.match(rf"^\W*{name}\b.*│.*\d", line)]
    return [float(number) for number in re.findall(r"-?\d+\.\d+", line)]


def test_five_recommenders_are_compared_with_the_truth_on_three_kinds_of_data(output: Path) -> None:
    text = printed()

    size = r"60 users x 60 items, [\d,]+ ratings in each data set \(\d+% of all pairs\), 2 draws of each"
    assert re.search(size, text)
    assert "1,800 random pairs of each are withheld" in text
    worst, least, (against_truth, lists) = {}, {}, text.split("What the lists are worth")
    best = row_of("the best lists", lists)
    for name in closeness.ROWS:
        *values, least[name] = row_of(name, lists)
        assert least[name] == min(values), name
        assert all(1 <= value <= most for value, most in zip(values, best, strict=True)), name
        *cells, worst[name] = row_of(name, against_truth)
        errors, biases = cells[::2], cells[1::2]
        assert len(errors) == len(biases) == 3, name
        assert worst[name] == max(errors), name
        assert all(abs(bias) < 4 for bias in biases), name
    (first, *_) = re.findall(r"the smallest worst error is that of '(.+?)'", text)
    assert worst[first] == min(worst.values())
    (best_lists, *_) = re.findall(r"The largest worst value of lists is\s+that of '(.+?)'", text)
    assert least[best_lists] == max(least.values())
    assert text.count("the confounder changes the error of the model with biases by") == 3
    assert ElementTree.parse(output / "closeness.svg").getroot().tag.endswith("svg")

    assert "Recommended by the deconfounded model" in text
    assert "true rating" in text
    verify(f"{output / 'deconfounded'}/run_id={current_run_id(str(output / 'deconfounded'))}")


def test_settings_of_the_nightly_job_are_those_of_the_comparison() -> None:
    """The tables that the demo publishes come from the row that it has shown."""
    settings = {**demo.MODELS["deconfounded"], **demo.PRIORS}
    config = load_config(RetrainConfig, conf_directory() / "demo.yaml", [f"{k}={v}" for k, v in settings.items()])
    asked = {camel_case(name): value for name, value in config.outcome.model_dump().items()}
    shown = {**closeness.SHARED, **closeness.ROWS["deconfounded"].settings}
    assert {name: asked[name] for name in shown} == {**shown, **{name: asked[name] for name in ("maxIter", "tol")}}


def test_a_movielens_file_is_recommended_from_by_title(output: Path, data_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "ml"
    source.mkdir()
    with (data_folder / "ml-100k" / "u.data").open(encoding="ascii") as lines:
        (source / "u.data").write_text("".join(islice(lines, 20_000)), encoding="ascii")
    (source / "u.item").write_bytes((data_folder / "ml-100k" / "u.item").read_bytes())

    refused = CliRunner().invoke(demo.demo, ["--data", "none.data"])
    assert refused.exit_code == 2
    assert "none.data" in refused.stderr
    text = printed("--data", str(source / "u.data"))

    assert re.search(r"\d+ % of the deconfounded recommendations are those of the model without", text)
    titles = pd.read_csv(source / "u.item", sep="|", encoding="latin-1", header=None, index_col=0)[1]
    for name in ("deconfounded", "unadjusted"):
        assert f"Recommended by the {demo.CALLED[name]}" in text
        table = pd.read_parquet(output / name / f"run_id={current_run_id(str(output / name))}" / "recommendations")
        shown = table[table.user_id.isin(sorted(table.user_id.unique())[:3]) & (table["rank"] <= 5)]
        assert len(shown) == 15
        assert [title for title in titles[shown.item_id] if title not in text] == []
    users = {line.split("\t")[0] for line in (source / "u.data").read_text().splitlines()}
    assert table.user_id.nunique() == len(users)
