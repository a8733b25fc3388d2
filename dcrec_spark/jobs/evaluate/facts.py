"""Facts of the report, from the tables of an evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import EvaluateConfig
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.baselines import GLOBAL_MEAN, ITEM_MEAN, POPULARITY, RANDOM
from dcrec_spark.evaluation.distributions import counts_in_powers, histogram
from dcrec_spark.evaluation.measures import COMPOSITION, Measure, MeasureKind
from dcrec_spark.evaluation.result import Estimate, Metrics
from dcrec_spark.jobs.evaluate.measure import BASELINE, COMPARED, MODEL, Comparison, Measurements, difference_of
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.explain.text import reasons_text, with_titles
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.families.registry import family_of
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel, members_of
from dcrec_spark.report.facts import CertaintyFacts, DataFacts, GammaFacts, PartFacts, ReportFacts, Stage, StratumFacts

_BASELINES = {
    RANDOM: "a hash of user and item; not ranked over the catalogue",
    GLOBAL_MEAN: "the mean training rating, the same for all",
    ITEM_MEAN: "the item's mean training rating",
    POPULARITY: "the item's number of training ratings",
}
_SAMPLE_USERS, _REASONS = 3, 3


def report_facts(
    config: EvaluateConfig,
    run: Run,
    comparison: Comparison,
    measurements: Measurements,
    check: PredictiveCheck | None,
    certainty: CertaintyFacts | str,
    titles: DataFrame | None,
    record: Mapping[str, Any],
) -> ReportFacts:
    """Collect what the report shows. record : ``run.json`` of the run that fitted the model, empty for none."""
    model, k = comparison.model, measurements.of_lists.settings.ks[-1]
    degenerate = [*(model.exposureModel.degeneracies if model.exposureModel else []), *model.degeneracies]
    samples, no_reasons = sample_users(config, comparison, measurements.lists, titles)
    return ReportFacts(
        run_id=run.run_id,
        run_date=run.run_date,
        version=comparison.saved.source.model_version,
        models=_models(comparison),
        outcome=model.getOrDefault("outcome"),
        adjustment=model.getOrDefault("adjustment"),
        intercept=model.intercept,
        unrated_are_zeros=family_of(model).unrated_are_zeros,
        problems=[*run.warnings, *map(str, degenerate), *_problems_of_fit(record)],
        data=_data(comparison),
        stages=_stages(model),
        check=check or "There is no exposure model to check.",
        p_values=[] if check is None else check.histogram(),
        settings=measurements.of_test.settings,
        estimates=_estimates(measurements.of_test, measurements.of_lists),
        differences={
            other: {
                measure: estimate
                for metrics in parts
                for measure, estimate in metrics.estimates().items()
                if Measure.parse(measure).kind not in (MeasureKind.COVERAGE, *COMPOSITION)  # have no interval
            }
            for other, parts in measurements.differences.items()
        },
        strata=[
            StratumFacts(stratum.side, stratum.numbers, stratum.members, difference_of(stratum).estimates())
            for stratum in measurements.strata
        ]
        or "A model without the confounder has nothing to compare it with: name one (evaluation.compare_with).",
        certainty=certainty,
        gamma=_gamma(model),
        samples=samples,
        no_reasons=no_reasons,
        k=k,
        listed=_count_lists(model, measurements.lists, k),
        timings=dict(run.timings),
        fit_timings=record.get("timings", {}),
        versions=run.versions,
    )


def _models(comparison: Comparison) -> dict[str, str]:
    models = {MODEL: _describe(comparison.saved)}
    if comparison.other is not None:
        models[COMPARED] = f"{_describe(comparison.other)}, version {comparison.other.source.model_version}"
    if BASELINE in comparison.relatives:
        models[BASELINE] = "the same settings without a confounder, fitted to the same ratings"
    return models | _BASELINES


def _describe(saved: SavedModel) -> str:
    if isinstance(saved.model, BlendModel):
        shares = ", ".join(f"{weight:.2f} {name}" for name, weight in saved.model.weights.items() if weight > 0)
        return f"a blend of models: {shares}"
    get, exposure = saved.model.getOrDefault, saved.model.exposureModel
    kind = {"none": "without the confounder", "ipw": "by inverse propensities"}.get(get("adjustment"), "deconfounded")
    text = f"{get('outcome')} matrix factorization, {kind}, rank {get('rank')}"
    return text if exposure is None else f"{text}, exposure rank {exposure.getOrDefault('rank')}"


def _problems_of_fit(record: Mapping[str, Any]) -> list[str]:
    """Failures in the record of the run that fitted the model: its predictive check, and limits of its audit."""
    check, audit = record.get("exposure_check"), record.get("audit") or {"verdicts": []}
    failed = [] if check is None or check["passed"] else [f"The run that fitted the model: {check['summary']}."]
    limits = [verdict for verdict in audit["verdicts"] if not verdict["passed"]]
    return failed + [f"Published in spite of audit.{limit['check']} (--force): {limit['about']}." for limit in limits]


def _data(comparison: Comparison) -> DataFacts:
    per_user, per_item = (
        counts_in_powers(comparison.training.groupBy(f"{side}_id").count(), "count") for side in ("user", "item")
    )
    training, test = _part("training", comparison.training), _part("test", comparison.test)
    left_out = comparison.overlap, comparison.unknown, comparison.items_missing
    return DataFacts(training, test, *left_out, per_user, per_item)


def _part(name: str, ratings: DataFrame) -> PartFacts:
    users, items = ratings.agg(F.count_distinct("user_id"), F.count_distinct("item_id")).collect()[0]
    return PartFacts(name, int(users), int(items), histogram(ratings, "rating"))


def _stages(model: AnyModel) -> list[Stage]:
    stages = []
    if (exposure := model.exposureModel) is not None:
        get = exposure.getOrDefault
        stages.append(Stage("exposure", "ELBO", exposure.elboHistory, get("tol"), get("maxIter")))
    for name, member in members_of(model).items():
        get, objective = member.getOrDefault, family_of(member).objective.name
        stages.append(Stage(f"outcome {name}".strip(), objective, member.objectiveHistory, get("tol"), get("maxIter")))
    return stages


def _estimates(*several: Metrics) -> dict[str, dict[str, Estimate]]:
    estimates: dict[str, dict[str, Estimate]] = {}
    for metrics in several:
        for model in metrics.scores:
            estimates.setdefault(model, {}).update(metrics.estimates(model))
    return estimates


def _gamma(model: AnyModel) -> GammaFacts | None:
    if isinstance(model, BlendModel) or model.getOrDefault("adjustment") != "deconfounded":
        return None
    users = model.userFactors
    return GammaFacts(histogram(users, "gamma"), users.where("gamma < 0").count())


def sample_users(
    config: EvaluateConfig, comparison: Comparison, lists: DataFrame, titles: DataFrame | None
) -> tuple[dict[str, Sequence[Any]], str]:
    """Recommendations and reasons of the users with the smallest hashes of (seed, user), or why there are none."""
    by_hash = F.xxhash64(F.lit(config.run.seed).cast("long"), F.col("user_id").cast("string"))
    users = lists.select("user_id").distinct().orderBy(by_hash, "user_id").limit(_SAMPLE_USERS)
    parts = ["user_id", "rank", "item_id", "score", "preference", "confounder"]
    few = lists.join(F.broadcast(users), "user_id", "left_semi").where(F.col("rank") <= config.recommend.top_n)
    few = few.select(*parts)
    titled = few.withColumn("title", F.col("item_id").cast("string")) if titles is None else with_titles(few, titles)
    rows, no_reasons = titled.toPandas(), ""
    try:
        rows = rows.merge(_reasons(comparison, few, titles), on=["user_id", "item_id"], how="left")
        rows = rows.fillna({"reasons_text": ""})
    except DataError as error:
        rows["reasons_text"], no_reasons = "", f"There are no reasons: {error}."
    ordered = rows.sort_values(["user_id", "rank"])
    return {str(user): list(of.itertuples()) for user, of in ordered.groupby("user_id", sort=True)}, no_reasons


def _reasons(comparison: Comparison, lists: DataFrame, titles: DataFrame | None) -> Any:
    """pandas: user_id, item_id, reasons_text."""
    model = comparison.model
    names = {"user_id": model.getOrDefault("userCol"), "item_id": model.getOrDefault("itemCol")}
    pairs = lists.select(*names).withColumnsRenamed(names)
    explained = model.explain(pairs, as_trained(model, comparison.training), _REASONS)
    try:
        named, name = (explained, "item_id") if titles is None else (with_titles(explained, titles), "title")
        return named.select("user_id", "item_id", reasons_text(name=name)).toPandas()
    finally:
        explained.unpersist()


def _count_lists(model: AnyModel, ranked: DataFrame, k: int) -> Any:
    """pandas: in how many users' first k places the items of the catalogue are (low, high, n)."""
    places = ranked.where(F.col("rank") <= k).groupBy("item_id").agg(F.count("*").alias("lists"))
    items = model.tables()[1].select(F.col("id").alias("item_id")).join(places, "item_id", "left")
    return counts_in_powers(items.select(F.coalesce("lists", F.lit(0)).alias("lists")), "lists")
