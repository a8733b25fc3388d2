"""A retraining that refits: it publishes what ``DeconfoundedMF.refit`` gives, and says what such a model can't do."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.evaluate.job import Evaluate
from dcrec_spark.jobs.fold_in import FoldIn
from dcrec_spark.jobs.recommend import Recommend
from dcrec_spark.publish.parquet import verify
from dcrec_spark.settings.setting import camel
from tests.jobs.job import (
    SMALL,
    AnyJob,
    column_of_vectors,
    failure_of,
    names_in,
    read_table,
    record_of,
    run_directory,
    run_job,
    run_retrain,
)

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

FIRST = {
    **SMALL,
    "outcome.outcome": "probabilistic",
    "outcome.fit_biases": "true",
    "outcome.standardize_confounder": "true",
}
REFIT = {
    "refit.rank": 3,
    "refit.weight_cap": 4,
    "refit.user_reg": 5,
    "refit.item_reg": 6,
    "refit.user_bias_reg": 2,
    "refit.item_bias_reg": 3,
    "refit.max_iter": 4,
    "refit.tol": 0,
}
# The same, as the estimator spells it.
SECOND = {
    "rank": 3,
    "refitWeightCap": 4.0,
    "userReg": 5.0,
    "itemReg": 6.0,
    "userBiasReg": 2.0,
    "itemBiasReg": 3.0,
    "maxIter": 4,
    "tol": 0.0,
    "seed": 42,
}
KINDS = ("doubly_robust", "all_pairs")


def ratings() -> pd.DataFrame:
    rows = [(u, i, 1.0 + (u * i + i) % 5) for u in range(30) for i in range(20) if (u * 7 + i * 3) % 5 < 2]
    return pd.DataFrame(rows, columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ratings.parquet, an output for each kind of refit, and ``first``: that of the same without one."""
    folder = tmp_path_factory.mktemp("refits")
    ratings().to_parquet(folder / "ratings.parquet")
    for name in ("first", *KINDS):
        refit = {} if name == "first" else {**REFIT, "refit.kind": name}
        settings = {**FIRST, **refit, "input.path": folder / "ratings.parquet", "output.path": folder / name}
        outcome = run_retrain({**settings, "recommend.vectors": "true", "recommend.fallback": "true"})
        assert outcome.code == 0, outcome
    return folder


def rated(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ratings().rename(columns={"user": "user_id", "item": "item_id"}))


def scores(model: DeconfoundedMFModel) -> pd.DataFrame:
    table = model.recommendationTable(5).select("user_id", "rank", "item_id", "score").toPandas()
    return table.sort_values(["user_id", "rank"], ignore_index=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_published_is_what_the_estimator_s_refit_gives(spark: SparkSession, nightly: Path, kind: str) -> None:
    first = DeconfoundedMFModel.load(str(run_directory(nightly / "first") / "model"))
    asked = {**SECOND, "refit": camel(kind)}
    expected = DeconfoundedMF(userCol="user_id", itemCol="item_id", **asked).refitModel(first, rated(spark))
    run = run_directory(nightly / kind)
    saved, record = DeconfoundedMFModel.load(str(run / "model")), record_of(run)
    for model in (saved, expected):
        assert model.facts.refitted
        assert model.exposureModel is None
    pd.testing.assert_frame_equal(scores(saved), scores(expected), rtol=1e-8)
    published = read_table(run, "recommendations").sort_values(["user_id", "rank"], ignore_index=True)
    again = saved.recommendationTable(2, rated(spark)).toPandas().sort_values(["user_id", "rank"], ignore_index=True)
    assert published.item_id.tolist() == again.item_id.tolist()
    np.testing.assert_allclose(published.score, again.score, rtol=1e-9)
    assert not published.confounder.any()
    assert not read_table(run, "user_factors").gamma.any()
    assert column_of_vectors(read_table(run, "item_factors"), "features").shape == (20, 3)
    np.testing.assert_allclose(record["objectives"]["refit"], expected.objectiveHistory, rtol=1e-8)
    assert record["intercept"] == pytest.approx(expected.intercept, rel=1e-8)
    verify(str(run))
    for model in (first, expected, saved):
        model.release()


def test_the_record_has_both_fits_and_another_model_version(nightly: Path) -> None:
    records = {name: record_of(run_directory(nightly / name)) for name in ("first", *KINDS)}
    for kind in KINDS:
        record = records[kind]
        assert record["refit"] == kind
        assert record["configuration"]["refit"]["kind"] == kind
        assert record["iterations"] == {"exposure": 4, "outcome": 3, "refit": 4}
        assert "refit to all pairs" in record["timings"]
        for stage in ("exposure", "outcome"):
            assert record["objectives"][stage] == pytest.approx(records["first"]["objectives"][stage], rel=1e-10)
    assert records["first"]["refit"] is None
    assert "refit" not in records["first"]["objectives"]
    assert len({record["model_version"] for record in records.values()}) == 3


def test_a_refitted_model_is_served_and_judged_and_the_report_says_what_it_is(nightly: Path, tmp_path: Path) -> None:
    source = {"model.path": nightly / "all_pairs", "input.path": nightly / "ratings.parquet"}
    served = run_job(Recommend, {**source, "output.path": tmp_path / "served", "recommend.top_n": 2})
    assert served.code == 0, served
    lists = [
        read_table(run_directory(output), "recommendations").sort_values(["user_id", "rank"], ignore_index=True)
        for output in (nightly / "all_pairs", tmp_path / "served")
    ]
    assert lists[0].item_id.tolist() == lists[1].item_id.tolist()

    test = pd.DataFrame([(u, (u * 7) % 20, 4.0) for u in range(30)], columns=["user", "item", "rating"])
    test.to_parquet(tmp_path / "test.parquet")
    judge = {"evaluation.test_path": tmp_path / "test.parquet", "evaluation.bootstrap": 0, "evaluation.cuts": "[5]"}
    judge |= {"evaluation.reasons": 0, "output.path": tmp_path / "judged"}
    judged = run_job(Evaluate, {**source, **judge})
    assert judged.code == 0, judged
    page = (run_directory(tmp_path / "judged") / "report" / "report.html").read_text()
    assert "This model was refitted" in page
    for stage, iterations in (("Exposure", 4), ("Outcome", 3), ("Refit", 4)):
        assert f"{stage} stage: {iterations} iterations" in page
    assert "Not known: this model was refitted to the predictions of another one" in page


CANNOT: dict[str, tuple[type[AnyJob], dict[str, Any], str]] = {
    "fold in": (FoldIn, {}, "setting model.path: found "),
    "say how sure": (Recommend, {"recommend.intervals": "true"}, "setting recommend.intervals: found true"),
    "say what was seen": (Recommend, {"recommend.overlap": "true"}, "setting recommend.overlap: found true"),
    "give reasons": (
        Evaluate,
        {"evaluation.test_path": "{folder}/ratings.parquet"},
        "setting evaluation.reasons: found 3, expected 0: ",
    ),
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_a_refitted_model_cannot_do_is_refused_before_anything_runs(
    what: str, nightly: Path, tmp_path: Path
) -> None:
    job, changed, said = CANNOT[what]
    chosen = {name: value.format(folder=nightly) for name, value in changed.items()}
    places = {"input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    outcome = run_job(job, {"model.path": nightly / "all_pairs", **places, **chosen})
    assert outcome.code == 2, outcome
    assert outcome.message.startswith(said)
    assert "was refitted to another model's predictions (refit.kind)" in outcome.message
    assert "validate" not in failure_of(tmp_path / "out")["timings"]
    assert names_in(tmp_path / "out") == set()


TOGETHER = {
    "intervals": ({"recommend.intervals": "true"}, "recommend.intervals false for refit.kind=all_pairs"),
    "overlap": ({"recommend.overlap": "true"}, "recommend.overlap false for refit.kind=all_pairs"),
    "the last model": ({"model.warm_start": "previous"}, "model.warm_start null, or a model that was not refitted"),
    "a link": (
        {"outcome.confounder_link": "sqrt", "outcome.unobserved_weight": 0},
        "outcome.confounder_link identity for refit.kind=all_pairs",
    ),
    "nothing to take propensities from": (
        {"refit.kind": "doubly_robust", "outcome.adjustment": "none", "outcome.standardize_confounder": "false"},
        "setting refit.kind: found doubly_robust, expected all_pairs or null for outcome.adjustment=none",
    ),
    "a start that was refitted": (
        {"model.warm_start": "{folder}/all_pairs"},
        "was refitted to another model's predictions (refit.kind), and is no start of a fit",
    ),
    "another kind": ({"refit.kind": "robust"}, "refit.kind"),
    "more than the estimator takes": ({"refit.user_reg": 1e13}, "refit.user_reg"),
}


@pytest.mark.parametrize("what", TOGETHER)
def test_settings_that_do_not_go_with_a_refit_are_refused(what: str, nightly: Path, tmp_path: Path) -> None:
    changed, said = TOGETHER[what]
    chosen = {name: str(value).format(folder=nightly) for name, value in changed.items()}
    places = {"input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    outcome = run_retrain({**FIRST, **REFIT, "refit.kind": "all_pairs", **places, **chosen})
    assert outcome.code == 2, outcome
    assert said in outcome.message
    assert names_in(tmp_path / "out") == set()


def test_a_fit_does_not_start_from_a_refitted_model_either(nightly: Path, tmp_path: Path) -> None:
    settings = {**FIRST, "input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    outcome = run_retrain({**settings, "model.warm_start": nightly / "all_pairs"})
    assert outcome.code == 2
    assert outcome.message.startswith("setting model.warm_start: found ")
    assert "is no start of a fit; retrain with refit.kind=null publishes one that was not" in outcome.message


def test_a_refit_that_leaves_nothing_of_the_factors_is_not_published(nightly: Path, tmp_path: Path) -> None:
    settings = {**FIRST, **REFIT, "input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    crushed = {"refit.kind": "all_pairs", "refit.user_reg": 1e12, "refit.item_reg": 1e12}
    outcome = run_retrain({**settings, **crushed})
    assert (outcome.code, outcome.error["kind"]) == (FitError.exit_code, "FitError")
    assert outcome.message.startswith("refit: all 3 factors are zero")
    assert "refit.kind=null" in outcome.message
    assert names_in(tmp_path / "out") == set()


def test_a_dry_run_says_that_the_model_will_be_refitted(nightly: Path, tmp_path: Path) -> None:
    settings = {**FIRST, **REFIT, "input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    outcome = run_retrain({**settings, "refit.kind": "all_pairs"}, "--dry-run")
    assert outcome.code == 0, outcome
    assert "refitted to all pairs (all_pairs)" in " ".join(outcome.printed.split())


def test_a_loaded_refitted_model_says_where_to_go(nightly: Path) -> None:
    model = DeconfoundedMFModel.load(str(run_directory(nightly / "all_pairs") / "model"))
    with pytest.raises(ConfigError, match="refitted to the predictions of another one"):
        model.foldInUsers(model.userFactors)
    model.release()
