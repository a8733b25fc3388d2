"""The nightly job: ratings -> validated -> both stages fitted -> best items of each user -> published with the model.

extract      ratings, the model that the fit starts from, what is on offer
transform    look what is new, validate, check the exposure model, fit, compare with the model before, rank
load         recommendations, user_factors, item_factors, rejects, runs; model/; where they are asked for
             user_overlap, item_overlap, fallback, similar_items, user_vectors, item_vectors, changes
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import RetrainConfig
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.estimator_settings import exposure_params, outcome_params
from dcrec_spark.jobs.exposure_check import check_exposures
from dcrec_spark.jobs.fit_checkpoints import checkpoints_of, remove_checkpoints
from dcrec_spark.jobs.inputs import open_ratings
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.jobs.lists import list_tables, ranked_lists, with_changes
from dcrec_spark.jobs.model_audit import check_volume, compare_models, hold_out
from dcrec_spark.jobs.news import count_news, end_where_nothing_is_new, last_run
from dcrec_spark.jobs.offer import Offer, note_offer, open_offer
from dcrec_spark.jobs.outputs import factor_tables, model_folder, reject_table
from dcrec_spark.jobs.overlap import overlap_tables, require_exposure
from dcrec_spark.jobs.saved_model import FOLDER, SavedModel, load_model, previous_run
from dcrec_spark.jobs.summary import input_line
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.families.base import Assessing
from dcrec_spark.models.families.registry import consistent_family_of
from dcrec_spark.models.fitting.degeneracies import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

PREVIOUS = "previous"
# Up to this rank any number of users and items will do.
_ANY_RANK = 10


@dataclass(frozen=True)
class Inputs:
    """Ratings as ``read_ratings`` gives them, the model that the fit starts from, if any, and what is on offer."""

    ratings: DataFrame
    start: SavedModel | None
    offer: Offer


class Retrain(Job[RetrainConfig, Inputs, DeconfoundedMFModel]):
    """Fit a model to all ratings, and publish what it recommends. The result is the model, still in memory."""

    config_type = RetrainConfig
    last_step = "rank and publish"

    def extract(self, context: Context[RetrainConfig]) -> Inputs:
        """Open the ratings; load the model to start from, which has to fit them and the settings."""
        config, ratings = context.config, open_ratings(context)
        types = {side: ratings.schema[f"{side}_id"].dataType for side in ("user", "item")}
        offer = open_offer(context.spark, config.recommend, config.input, types, context.resources)
        inputs = Inputs(ratings, _start_of_fit(context), offer)
        _estimators(context.config, inputs.ratings, inputs.start)
        return inputs

    def transform(self, context: Context[RetrainConfig], inputs: Inputs) -> Outputs[DeconfoundedMFModel]:
        """Validate, fit both stages, rank."""
        config, run = context.config, context.run
        last = last_run(context)
        end_where_nothing_is_new(context, last)
        with context.reporter.step("validate"):
            valid = validate(inputs.ratings, config.validation, seed=config.run.seed)
            context.resources.callback(valid.unpersist)
            run.took_in(valid)
            end_where_nothing_is_new(context, last)
            check_volume(context)
            parts = hold_out(context, valid.ratings)
            _require_fillable_ranks(config, parts.train)
        count_news(context, last)
        check_exposures(context, parts.train, _estimators(config, valid.ratings, inputs.start)[1])
        model = _fit(context, parts.train, inputs.start)
        run.fitted(model)
        note_offer(run, inputs.offer, model)
        compare_models(context, model, parts)
        left_out = inputs.offer.left_out(valid.ratings if config.recommend.exclude_seen else None)
        tables = {**_lists(context, inputs.offer, model, left_out, parts.train), **factor_tables(model, run)}
        if config.recommend.overlap:
            tables |= overlap_tables(context, model, config.recommend, parts.train)
        tables["rejects"] = reject_table(valid, run)
        folders = {FOLDER: model_folder(model, context.spark)}
        return Outputs(tables, model, folders, left_out, inputs.offer, config.recommend.top_n)

    def load(self, context: Context[RetrainConfig], outputs: Outputs[DeconfoundedMFModel]) -> str:
        """Publish; nobody goes on with a fit that is published."""
        where = super().load(context, outputs)
        remove_checkpoints(context)
        return where

    def plan(self, context: Context[RetrainConfig], inputs: Inputs) -> list[str]:
        """Name the ratings, and the kind of model."""
        outcome = context.config.outcome
        model = f"model   {outcome.outcome}, adjustment {outcome.adjustment}"
        return [input_line(context.config, inputs.ratings), model]


def _lists(
    context: Context[RetrainConfig],
    offer: Offer,
    model: DeconfoundedMFModel,
    left_out: DataFrame | None,
    fitted_to: DataFrame,
) -> dict[str, DataFrame]:
    recommend = context.config.recommend
    ranked = ranked_lists(context, model, recommend, offer, left_out, fitted_to if recommend.intervals else None)
    tables = list_tables(model, recommend, offer, ranked, context.run)
    if recommend.changes:
        return with_changes(context.spark, context.output, tables, context.run, context.resources)
    return tables


def _require_fillable_ranks(config: RetrainConfig, ratings: DataFrame) -> None:
    """Refuse ranks that the ratings cannot fill: more factors than there are users, or items.

    Raises
    ------
    ConfigError : names the settings.
    """
    ranks = {"exposure.rank": config.exposure.rank, "outcome.rank": config.outcome.rank}
    large = {name: rank for name, rank in ranks.items() if rank > _ANY_RANK}
    if not large:
        return
    sizes = ratings.agg(*(F.countDistinct(f"{side}_id").alias(f"{side}s") for side in ("user", "item"))).collect()[0]
    fewest = min(sizes.asDict(), key=lambda name: sizes[name])
    most = max(_ANY_RANK, sizes[fewest])
    for name, rank in large.items():
        if rank > most:
            raise ConfigError(
                f"setting {name}: found {rank}, expected at most {most}: the ratings are of {sizes[fewest]} {fewest}, "
                "and further factors would have nothing to say"
            )


def _start_of_fit(context: Context[RetrainConfig]) -> SavedModel | None:
    """Load the model that the fit starts from, if one is asked for and there; released at the end of the run."""
    path = context.config.model.warm_start
    if path == PREVIOUS:
        path = previous_run(context.spark, context.output)
        if path is None:
            context.run.warnings.append(
                f"a cold start: there is no previous run with a model under {context.output} to start from"
            )
    if path is None:
        return None
    start = load_model(context.spark, path, "model.warm_start")
    context.resources.callback(start.model.release)
    context.run.source = start.source
    return start


def _fit(context: Context[RetrainConfig], ratings: DataFrame, start: SavedModel | None) -> DeconfoundedMFModel:
    """Fit both stages.

    Raises
    ------
    FitError : all factors of a stage are zero, which would rank by the confounder alone, or by nothing.
    """
    config = context.config
    outcome, exposure = _estimators(config, ratings, start)
    iterations = {"exposure": config.exposure.max_iter, "outcome": config.outcome.max_iter}
    outcome.listener = exposure.listener = context.reporter.listener(iterations)
    outcome.checkpoints = exposure.checkpoints = checkpoints_of(context)
    with context.reporter.step("fit"):
        model = outcome.fit(ratings)
    degeneracies = [*(model.exposureModel.degeneracies if model.exposureModel else []), *model.degeneracies]
    if vanished(degeneracies):
        raise FitError("; ".join(map(str, degeneracies)))
    return model


def _estimators(
    config: RetrainConfig, ratings: DataFrame, start: SavedModel | None
) -> tuple[DeconfoundedMF, PoissonFactorization]:
    """Both stages as they are configured, for ratings with these columns.

    Raises
    ------
    ConfigError : the fit could not start from the given model, or has no intervals or no overlap to publish.
    """
    shared = config.engine, config.run.seed, ratings.columns
    exposure = PoissonFactorization(**exposure_params(config.exposure, *shared))
    initial = None if start is None else start.model
    outcome = DeconfoundedMF(**outcome_params(config.outcome, *shared), exposureModel=exposure, initialModel=initial)
    family = consistent_family_of(outcome)
    if config.recommend.intervals and not isinstance(family, Assessing):
        raise ConfigError(
            "setting recommend.intervals: found true, expected false for outcome.outcome="
            f"{config.outcome.outcome}, which does not say how sure a score is"
        )
    require_exposure(config.recommend, family.has_confounder, f"outcome.adjustment={config.outcome.adjustment}")
    try:
        outcome.checkInitialModel(ratings)
    except ConfigError as error:
        raise ConfigError(f"setting model.warm_start: {error}; null starts anew") from error
    return outcome, exposure
