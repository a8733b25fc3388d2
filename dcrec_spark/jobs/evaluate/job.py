"""The job that evaluates a saved model: model + its training ratings + held-out ratings -> metrics and a report.

extract      the model (and a second one), ratings, test, titles
transform    validate ─ leave out seen and unknown pairs ─ fit the baseline model ─ predict and rank ─ check
load         metrics, rejects, runs. report/report.html
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.jobs import EvaluateConfig
from dcrec_spark.config.sections import InputConfig
from dcrec_spark.data.listed import read_titles_file
from dcrec_spark.data.read import read_ratings
from dcrec_spark.errors import ConfigError, DataError, prefix_errors
from dcrec_spark.evaluation.baselines import GLOBAL_MEAN, ITEM_MEAN, POPULARITY, RANDOM
from dcrec_spark.evaluation.distributions import counts_in_powers, histogram
from dcrec_spark.evaluation.measures import Measure, MeasureKind
from dcrec_spark.jobs.evaluate import measure as work
from dcrec_spark.jobs.evaluate.measure import BASELINE, COMPARED, MODEL, TEST, Comparison, EvaluateInputs, Measurements
from dcrec_spark.jobs.features import open_features
from dcrec_spark.jobs.inputs import (
    ServingJob,
    as_trained,
    load_served_model,
    open_ratings,
    other_input,
    require_ids_of,
    validate_input,
    validate_other,
)
from dcrec_spark.jobs.job import Context, Finished, Outputs
from dcrec_spark.jobs.saved_model import SavedModel, load_model, record_of
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.models.explain.text import reasons_text, with_titles
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.families.registry import family_of
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel, members_of
from dcrec_spark.report.page import CertaintyFacts, PartFacts, ReportFacts, Stage, interval, label, number, render

FOLDER, PAGE = "report", "report.html"
_BASELINES = {
    RANDOM: "a hash of user and item; not ranked over the catalogue",
    GLOBAL_MEAN: "the mean training rating, the same for all",
    ITEM_MEAN: "the item's mean training rating",
    POPULARITY: "the item's number of training ratings",
}
_SAMPLE_USERS, _REASONS = 3, 3


class Evaluate(ServingJob[EvaluateConfig, EvaluateInputs, ReportFacts]):
    """Measure a saved model on held-out ratings, with baselines and intervals, and write a report."""

    config_type = EvaluateConfig

    def check(self, config: EvaluateConfig) -> None:
        super().check(config)
        test_input(config)

    def extract(self, context: Context[EvaluateConfig]) -> EvaluateInputs:
        settings, spark, other, titles = context.config.evaluation, context.spark, None, None
        with context.reporter.step("load the models"):
            saved = load_served_model(context)
            if settings.compare_with is not None:
                other = load_model(spark, settings.compare_with, "evaluation.compare_with")
                context.resources.callback(other.model.release)
            ratings = open_ratings(context)
            with prefix_errors(TEST):
                test = read_ratings(spark, test_input(context.config))
            for model in filter(None, (saved, other)):
                require_ids_of(model.model, ratings, "input", ("user", "item"))
                require_ids_of(model.model, test, TEST, ("user", "item"))
            if settings.titles_path is not None:
                id_type = saved.model.tables()[1].schema["id"].dataType
                titles = read_titles_file(spark, settings.titles_path, id_type)
            features = open_features(context, ratings)
            features.of_model(saved.model, [])
        return EvaluateInputs(saved, ratings, other, test, titles, features)

    def transform(self, context: Context[EvaluateConfig], inputs: EvaluateInputs) -> Outputs[ReportFacts]:
        run, step = context.run, context.reporter.step
        record = record_of(context.spark, inputs.saved.source) or {}
        training = validate_input(context, inputs.ratings)
        inputs.features.note(run, training.ratings)
        if record and record["data_fingerprint"] != run.data_fingerprint:
            run.warnings.append(
                f"the training ratings or features (input) are not those that run {record['run_id']} fitted the model "
                "to. Seen pairs, baselines and the check of the exposures are of other data than the model"
            )
        with step("compare the models"):
            test = validate_other(context, inputs.test, TEST)
            comparison = work.compare(context, inputs, training, test)
        with step("predict and rank"):
            measurements = work.measure(context, comparison)
        with step("check the exposures"):
            check = work.check_exposures(context, comparison)
        with step("measure the certainty"):
            certainty = work.measure_certainty(comparison)
        with step("write the report"):
            facts = _facts(context, comparison, measurements, check, certainty, record)
            page = render(facts)
        tables = {"metrics": measurements.table(context.spark, run.run_id), "rejects": reject_table(training, run)}
        return Outputs(tables, facts, {FOLDER: text_file(context.spark, PAGE, page)})

    def summary(self, context: Context[EvaluateConfig], finished: Finished[ReportFacts]) -> RenderableType:
        facts, page = finished.result, f"{finished.directory.removeprefix('file://')}/{FOLDER}/{PAGE}"
        measures = Measure(MeasureKind.MSE), Measure(MeasureKind.NDCG, facts.k, over_catalogue=True)
        table = Table("", label(measures[0]), f"{label(measures[1])} over the catalogue", box=SIMPLE_HEAD)
        for model, estimates in facts.estimates.items():
            found = [estimates.get(measure) for measure in measures]
            if any(found):
                table.add_row(model, *("" if one is None else f"{number(one.value)}  {interval(one)}" for one in found))
        return Group(super().summary(context, finished), table, Text(f"report    {page}", overflow="fold"))


def test_input(config: EvaluateConfig) -> InputConfig:
    """Settings of the test ratings. Raises ConfigError: there is no path, or input's query would be the test's too."""
    path = config.evaluation.test_path
    if path is None:
        raise ConfigError(
            f"setting {TEST}: found null, expected held-out ratings, in the format and with the columns of input"
        )
    return other_input(config.input, path, TEST)


def _facts(
    context: Context[EvaluateConfig],
    comparison: Comparison,
    measurements: Measurements,
    check: PredictiveCheck | None,
    certainty: CertaintyFacts | str,
    fitted_by: Mapping[str, Any],
) -> ReportFacts:
    """Collect what the report shows. fitted_by : ``run.json`` of the run that fitted the model, empty for none."""
    model, training, run = comparison.model, comparison.training, context.run
    lists = measurements.lists
    degenerate = [*(model.exposureModel.degeneracies if model.exposureModel else []), *model.degeneracies]
    per_user, per_item = (
        counts_in_powers(training.groupBy(f"{side}_id").count(), "count") for side in ("user", "item")
    )
    users = None
    if not isinstance(model, BlendModel) and model.getOrDefault("adjustment") == "deconfounded":
        users = model.userFactors
    samples, no_reasons = sample_users(context.config, comparison, lists)
    metrics, k = measurements.metrics, measurements.k
    models = {MODEL: _describe(comparison.inputs.saved)}
    if (other := comparison.inputs.other) is not None:
        models[COMPARED] = f"{_describe(other)}, version {other.source.model_version}"
    if BASELINE in comparison.relatives:
        models[BASELINE] = "the same settings without a confounder, fitted to the same ratings"
    return ReportFacts(
        record=run.facts("running", 0, None),
        models=models | _BASELINES,
        intercept=model.intercept,
        unrated_are_zeros=family_of(model).unrated_are_zeros,
        problems=[*run.warnings, *map(str, degenerate), *_problems_of_fit(fitted_by)],
        training=_part(training),
        test=_part(comparison.test),
        per_user=per_user,
        per_item=per_item,
        stages=_stages(model),
        check=check or "There is no exposure model to check.",
        p_values=[] if check is None else check.histogram(),
        settings=metrics.settings,
        estimates={name: metrics.estimates(name) for name in metrics.scores},
        differences={name: found.estimates() for name, found in measurements.differences.items()},
        strata=[(stratum, work.difference_of(stratum).estimates()) for stratum in measurements.strata]
        or "A model without the confounder has nothing to compare it with: name one (evaluation.compare_with).",
        certainty=certainty,
        gamma=None if users is None else histogram(users, "gamma"),
        negative_gammas=0 if users is None else users.where("gamma < 0").count(),
        samples=samples,
        no_reasons=no_reasons,
        k=k,
        listed=_count_lists(model, lists, k),
        fit_timings=fitted_by.get("timings", {}),
    )


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


def _part(ratings: DataFrame) -> PartFacts:
    users, items = ratings.agg(F.count_distinct("user_id"), F.count_distinct("item_id")).collect()[0]
    return PartFacts(int(users), int(items), histogram(ratings, "rating"))


def _stages(model: AnyModel) -> list[Stage]:
    stages = []
    if (exposure := model.exposureModel) is not None:
        get = exposure.getOrDefault
        stages.append(Stage("exposure", "ELBO", exposure.elboHistory, get("tol"), get("maxIter")))
    for name, member in members_of(model).items():
        get, objective = member.getOrDefault, family_of(member).objective
        stages.append(Stage(f"outcome {name}".strip(), objective, member.objectiveHistory, get("tol"), get("maxIter")))
    return stages


def sample_users(
    config: EvaluateConfig, comparison: Comparison, lists: DataFrame
) -> tuple[dict[str, Sequence[Any]], str]:
    """Recommendations and reasons of the users with the smallest hashes of (seed, user), or why there are none."""
    by_hash = F.xxhash64(F.lit(config.run.seed).cast("long"), F.col("user_id").cast("string"))
    users = lists.select("user_id").distinct().orderBy(by_hash, "user_id").limit(_SAMPLE_USERS)
    parts = ["user_id", "rank", "item_id", "score", "preference", "confounder"]
    few = lists.join(F.broadcast(users), "user_id", "left_semi").where(F.col("rank") <= config.recommend.top_n)
    few, titles = few.select(*parts), comparison.inputs.titles
    titled = few.withColumn("title", F.col("item_id").cast("string")) if titles is None else with_titles(few, titles)
    rows, no_reasons = titled.toPandas(), ""
    try:
        rows = rows.merge(_reasons(comparison, few), on=["user_id", "item_id"], how="left")
        rows = rows.fillna({"reasons_text": ""})
    except DataError as error:
        rows["reasons_text"], no_reasons = "", f"There are no reasons: {error}."
    ordered = rows.sort_values(["user_id", "rank"])
    return {str(user): list(of.itertuples()) for user, of in ordered.groupby("user_id", sort=True)}, no_reasons


def _reasons(comparison: Comparison, lists: DataFrame) -> Any:
    """pandas: user_id, item_id, reasons_text."""
    model, titles = comparison.model, comparison.inputs.titles
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
