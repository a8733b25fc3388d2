"""From the tables of an evaluation on the cluster to the few numbers of its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import EvaluateConfig, resolved
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.baselines import GLOBAL_MEAN, ITEM_MEAN, POPULARITY, RANDOM
from dcrec_spark.evaluation.distributions import counts_in_powers, histogram, reliability
from dcrec_spark.evaluation.ranking_change import ranking_change
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.samples import reasons_for, sample_lists
from dcrec_spark.jobs.evaluate.comparison import COMPARED, MODEL, TWIN, Comparison
from dcrec_spark.jobs.evaluate.measure import HELD_OUT_SHARE, Measurements
from dcrec_spark.jobs.evaluate.strata import strata_facts
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.explain.text import with_titles
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.families.poisson_exposure import PoissonExposure
from dcrec_spark.models.families.registry import FAMILIES, family_of
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.report.facts import (
    AuditFacts,
    CertaintyFacts,
    ChangeFacts,
    CheckFacts,
    Counts,
    DataFacts,
    GammaFacts,
    LimitFacts,
    MetricFacts,
    ModelFacts,
    ReportFacts,
    SampleUser,
    Stage,
)

_P_VALUE_BINS = 20
_BASELINES = {
    RANDOM: "a hash of user and item; not ranked over the catalogue",
    GLOBAL_MEAN: "the mean training rating, for all, in any order",
    ITEM_MEAN: "the item's mean training rating",
    POPULARITY: "how many training ratings the item has",
}


@dataclass(frozen=True)
class Findings:
    """What the report is made of.

    Attributes
    ----------
    comparison : the models and the ratings.
    measurements : their metrics, predictions and lists.
    check : of the exposure model; None where it was not done.
    certainty : how sure the lists are, or why that is not said.
    samples : recommendations of a few users.
    titles : item_id, title; None where items have no titles.
    record : ``run.json`` of the run that fitted the model; None where the model is of no run.
    """

    comparison: Comparison
    measurements: Measurements
    check: PredictiveCheck | None
    certainty: CertaintyFacts | str
    samples: Sequence[SampleUser]
    titles: DataFrame | None
    record: Mapping[str, Any] | None


def report_facts(config: EvaluateConfig, run: Run, findings: Findings) -> ReportFacts:
    """Everything that the report says."""
    comparison, measurements = findings.comparison, findings.measurements
    model, k = comparison.model, max(config.evaluation.cuts)
    return ReportFacts(
        run_id=run.run_id,
        run_date=run.run_date.isoformat(),
        models=_models(comparison),
        data=_data(comparison),
        stages=_stages(model, findings.record),
        check=_check(model, findings),
        metrics=_metrics(measurements),
        reliability=reliability(measurements.predictions, MODEL),
        outcome=model.getOrDefault("outcome"),
        adjustment=model.getOrDefault("adjustment"),
        refitted=model.facts.refitted,
        gamma=_gamma(model),
        change=_change(comparison, measurements, findings.titles, k),
        strata=strata_facts(comparison, measurements.strata),
        samples=findings.samples,
        intercept=model.intercept,
        k=k,
        listed=_listed(model, measurements.lists[MODEL], k),
        timings=dict(run.timings),
        fit_timings=None if findings.record is None else findings.record["timings"],
        versions=run.versions,
        configuration=resolved(config),
        certainty=findings.certainty,
        audit=_audit(findings.record),
        unrated_are_zeros=family_of(model).unrated_are_zeros,
        warnings=[*run.warnings, *_degeneracies(model), *_failed_check(findings)],
    )


def _degeneracies(model: DeconfoundedMFModel) -> list[str]:
    exposure = [] if model.exposureModel is None else model.exposureModel.degeneracies
    return [str(fact) for fact in (*exposure, *model.degeneracies)]


def _models(comparison: Comparison) -> list[ModelFacts]:
    rows = [_saved(MODEL, comparison.saved)]
    if comparison.other is not None:
        rows.append(_saved(COMPARED, comparison.other))
    if TWIN in comparison.relatives:
        intercept = "an" if comparison.model.getOrDefault("fitIntercept") else "no"
        what = f"the same settings without the confounder, with {intercept} intercept, fitted to the training ratings"
        rows.append(ModelFacts(TWIN, what))
    return rows + [ModelFacts(name, what) for name, what in _BASELINES.items()]


def _saved(name: str, saved: SavedModel) -> ModelFacts:
    get, exposure = saved.model.getOrDefault, saved.model.exposureModel
    kind = {"none": "classical", "ipw": "weighted by inverse propensities"}.get(get("adjustment"), "deconfounded")
    what = f"{get('outcome')} matrix factorization, {kind}, rank {get('rank')}"
    if exposure is not None:
        weight = "a gamma for each user" if get("confounderWeight") == "user" else "one gamma for all"
        what += f", {weight}, exposure rank {exposure.getOrDefault('rank')}"
    if saved.model.facts.refitted:
        what += ", refitted to another model's predictions of all pairs"
    return ModelFacts(name, what, saved.source.model_version)


def _data(comparison: Comparison) -> DataFacts:
    per = [comparison.training.groupBy(f"{side}_id").count() for side in ("user", "item")]
    return DataFacts(
        training=_counts(comparison.training),
        test=_counts(comparison.test),
        overlap=comparison.overlap,
        unknown=comparison.unknown,
        items_missing=comparison.items_missing,
        per_user=counts_in_powers(per[0], "count"),
        per_item=counts_in_powers(per[1], "count"),
    )


def _counts(ratings: DataFrame) -> Counts:
    sides = [F.count_distinct(f"{side}_id") for side in ("user", "item")]
    users, items = ratings.agg(*sides).collect()[0]
    return Counts(int(users), int(items), histogram(ratings, "rating"))


def _stages(model: DeconfoundedMFModel, record: Mapping[str, Any] | None) -> list[Stage]:
    """Gather all fits; those before a refit are in the record of its run alone."""
    if model.facts.refitted:
        before = [] if record is None else _recorded_stages(record)
        return [*before, _stage("refit", model)]
    stages = []
    if (exposure := model.exposureModel) is not None:
        get = exposure.getOrDefault
        stages.append(Stage("exposure", "ELBO", True, exposure.elboHistory, get("tol"), get("maxIter")))
    return [*stages, _stage("outcome", model)]


def _stage(name: str, model: DeconfoundedMFModel) -> Stage:
    get, objective = model.getOrDefault, family_of(model).objective
    return Stage(name, *objective, model.objectiveHistory, get("tol"), get("maxIter"))


def _recorded_stages(record: Mapping[str, Any]) -> list[Stage]:
    """Read the fits of the model whose predictions a refitted one has learned."""
    settings, objectives = record["configuration"], record["objectives"]
    kinds = {"exposure": PoissonExposure.objective, "outcome": FAMILIES[settings["outcome"]["outcome"]].objective}
    return [
        Stage(name, *kind, objectives[name], settings[name]["tol"], settings[name]["max_iter"])
        for name, kind in kinds.items()
        if name in objectives
    ]


def _check(model: DeconfoundedMFModel, findings: Findings) -> CheckFacts | str:
    if (check := findings.check) is not None:
        return CheckFacts(check, check.histogram(_P_VALUE_BINS), HELD_OUT_SHARE)
    if (made := _check_of_fit(findings)) is not None:
        return f"Of the run that fitted the model, {made['summary']}."
    if model.exposureModel is None:
        return "There is no exposure model to check."
    return (
        "Not done: evaluation.predictive_check is false. The check fits the exposure model once more, with exposures "
        "held out, which the saved model has all seen. Without it nothing says whether a_hat is to be trusted."
    )


def _audit(record: Mapping[str, Any] | None) -> AuditFacts | str:
    """Read the verdicts of the run that fitted the model; records of earlier versions have no word of them."""
    if record is None:
        return "The model is of no run, so that no audit is known."
    if (audit := record.get("audit")) is None:
        return "The record of the run that fitted the model says nothing of an audit."
    limits = [LimitFacts(**each, forced=each["check"] in audit["forced"]) for each in audit["verdicts"]]
    compared = audit["compared"] or {"metric": None, "models": {}}
    models = {name: (each["value"], each["ci_low"], each["ci_high"]) for name, each in compared["models"].items()}
    return AuditFacts(limits, compared["metric"], models)


def _check_of_fit(findings: Findings) -> Mapping[str, Any] | None:
    """Return the check that the run of the model made, if any; runs of earlier versions have no word of it."""
    return None if findings.record is None else findings.record.get("exposure_check")


def _failed_check(findings: Findings) -> list[str]:
    made = _check_of_fit(findings)
    return [] if made is None or made["passed"] else [f"of the run that fitted the model, {made['summary']}"]


def _metrics(measurements: Measurements) -> MetricFacts:
    settings = measurements.of_test.settings
    estimates = pd.concat(
        [_estimates(metrics, name, name) for metrics in measurements.metrics for name in metrics.scores]
    )
    parts = [
        _estimates(metrics, next(iter(metrics.scores)), other)
        for other, each in measurements.differences.items()
        for metrics in each
    ]
    differences = pd.concat(parts)
    with_interval = differences[~differences.measure.str.contains("coverage")]
    return MetricFacts(
        estimates.reset_index(drop=True),
        with_interval.reset_index(drop=True),
        settings.gain,
        settings.relevance,
        settings.confidence,
        settings.replications,
    )


def _estimates(metrics: Metrics, scores: str, name: str) -> pd.DataFrame:
    rows = [(name, measure, *estimate) for measure, estimate in metrics.estimates(scores).items()]
    frame = pd.DataFrame(rows, columns=["model", "measure", "value", "low", "high", "n"])
    return frame.astype({"value": float, "low": float, "high": float})


def _gamma(model: DeconfoundedMFModel) -> GammaFacts:
    if model.exposureModel is None:
        return GammaFacts(None, None)
    if model.globalGamma is not None:
        return GammaFacts(None, model.globalGamma)
    users = model.userFactors
    return GammaFacts(histogram(users, "gamma"), None, users.where("gamma < 0").count())


def _change(comparison: Comparison, measurements: Measurements, titles: DataFrame | None, k: int) -> ChangeFacts | str:
    if not comparison.relatives:
        return (
            "This model has no confounder to leave out, and evaluation.compare_with names no other model: there is "
            "nothing to compare its ranking with."
        )
    before = next(iter(comparison.relatives))
    change = ranking_change(
        measurements.lists[before], measurements.lists[MODEL], comparison.statistics, k, measurements.depth
    )
    return ChangeFacts(change, before, _titles(comparison, titles, list(change.items.item_id)))


def _titles(comparison: Comparison, titles: DataFrame | None, items: Sequence[Any]) -> dict[Any, str]:
    if titles is None or not items:
        return {}
    return {row["item_id"]: row["title"] for row in titles.where(F.col("item_id").isin(list(items))).collect()}


def sample_users(
    config: EvaluateConfig, comparison: Comparison, measurements: Measurements, titles: DataFrame | None
) -> list[SampleUser]:
    """Collect a few users' recommendations, with reasons where they are asked for.

    Raises
    ------
    DataError : the training ratings are not those that the model was fitted to.
    """
    settings = config.evaluation
    if not settings.sample_users:
        return []
    lists = sample_lists(measurements.lists[MODEL], settings.sample_users, config.recommend.top_n, config.run.seed)
    by_id = F.col("item_id").cast("string")
    rows = (lists.withColumn("title", by_id) if titles is None else with_titles(lists, titles)).toPandas()
    if settings.reasons:
        why = _reasons(comparison, lists, titles, settings.reasons)
        rows = rows.merge(why, on=["user_id", "item_id"], how="left")
    else:
        rows["reasons_text"] = None
    ordered = rows.sort_values(["user_id", "rank"])
    return [SampleUser(str(user), of.reset_index(drop=True)) for user, of in ordered.groupby("user_id", sort=True)]


def _reasons(comparison: Comparison, lists: DataFrame, titles: DataFrame | None, n: int) -> pd.DataFrame:
    try:
        return reasons_for(comparison.model, lists, as_trained(comparison.model, comparison.training), titles, n)
    except DataError as error:
        raise DataError(f"input: {error}; or leave the reasons out with evaluation.reasons=0") from error


def _listed(model: DeconfoundedMFModel, ranked: DataFrame, k: int) -> pd.DataFrame:
    """In how many users' first k places each item of the catalogue is."""
    places = ranked.where(F.col("rank") <= k).groupBy("item_id").agg(F.count("*").alias("lists"))
    items = model.itemFactors.select(F.col("id").alias("item_id"))
    each = items.join(places, "item_id", "left").select(F.coalesce("lists", F.lit(0)).alias("lists"))
    return counts_in_powers(each, "lists")
