"""Retraining: ratings -> validated -> both stages fitted -> best items of each user -> published with the model.

extract      ratings, the model that the fit starts from, the catalogue
transform    skip if nothing changed, validate, check the exposures, fit, compare with the last model, rank
load         recommendations, user_factors, item_factors, rejects, runs, and the tables of recommend.extra; model/
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.stages import exposure_params, outcome_params
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.catalogue import note_catalogue, open_catalogue
from dcrec_spark.jobs.features import Features, open_features
from dcrec_spark.jobs.fit_checkpoints import checkpoints_of, remove_checkpoints
from dcrec_spark.jobs.inputs import input_line, open_ratings, validate_input, window_of
from dcrec_spark.jobs.job import Catalogue, Context, Job, NothingNew, Outputs
from dcrec_spark.jobs.model_audit import check_exposures, check_lists, compare_input, compare_models, hold_out
from dcrec_spark.jobs.saved_model import FOLDER, SavedModel, load_model, load_previous
from dcrec_spark.jobs.tables import factor_tables, list_tables, model_folder, reject_table, require_exposure
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.families.base import Assessing
from dcrec_spark.models.families.registry import consistent_family_of
from dcrec_spark.models.fitting.checks import start_from_strangers
from dcrec_spark.models.fitting.facts import vanished
from dcrec_spark.models.outcome.blend import MEMBERS, AnyModel, Blend, BlendModel, members_of
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

PREVIOUS = "previous"
# Up to this rank any number of users and items is accepted.
_ANY_RANK = 10
# Biases and weights that differ by less are equal.
_NOTHING = 1e-9
# Facts of a record that tell whether its input has changed.
_COMPARED = {"job", "run_id", "versions", "configuration", "config_hash"} | {
    *("data_fingerprint", "input_snapshot", "input_table_id", "input_window", "reasons")
}


@dataclass(frozen=True)
class RetrainInputs:
    """Ratings as ``read_ratings`` returns them, the model that the fit starts from, if any, catalogue and features."""

    ratings: DataFrame
    start: SavedModel | None
    catalogue: Catalogue
    features: Features


class Retrain(Job[RetrainConfig, RetrainInputs, AnyModel]):
    """Fit a model to all ratings, and publish what it recommends. The result is the model, still in memory."""

    config_type = RetrainConfig
    last_step = "rank and publish"

    def extract(self, context: Context[RetrainConfig]) -> RetrainInputs:
        config, ratings = context.config, open_ratings(context)
        known = {side: ratings.select(f"{side}_id") for side in ("user", "item")}
        catalogue = open_catalogue(context, known)
        inputs = RetrainInputs(ratings, _start_of_fit(context, ratings), catalogue, open_features(context, ratings))
        _estimator(config, inputs, inputs.ratings, inputs.start)
        return inputs

    def transform(self, context: Context[RetrainConfig], inputs: RetrainInputs) -> Outputs[AnyModel]:
        config, run = context.config, context.run
        run.input_window = window_of(config, inputs.ratings)
        skip_if_unchanged(context)
        valid = validate_input(context, inputs.ratings, to_fit=True)
        inputs.features.note(run, valid.ratings)
        skip_if_unchanged(context)
        compare_input(context)
        train, held_out = hold_out(context, valid.ratings)
        _require_fillable_ranks(config, train)
        outcome = _estimator(config, inputs, valid.ratings, inputs.start)
        check_exposures(context, train, outcome.getOrDefault("exposureModel"))
        model = _fit(context, inputs, train)
        run.note_fits(model)
        note_catalogue(run, inputs.catalogue, model)
        if held_out is None:
            check_lists(context, train, _estimator(config, inputs, train, None))
        else:
            compare_models(context, model, train, held_out)
        left_out = inputs.catalogue.left_out(valid.ratings if config.recommend.exclude_seen else None)
        tables = {
            **list_tables(context, model, config.recommend, inputs.catalogue, left_out, train),
            **factor_tables(model, run),
            "rejects": reject_table(valid, run),
        }
        folders = {FOLDER: model_folder(model, context.spark)}
        return Outputs(tables, model, folders, left_out, inputs.catalogue, config.recommend.top_n, train)

    def load(self, context: Context[RetrainConfig], outputs: Outputs[AnyModel]) -> str:
        where = super().load(context, outputs)
        remove_checkpoints(context)
        return where

    def plan(self, context: Context[RetrainConfig], inputs: RetrainInputs) -> list[str]:
        outcome = context.config.outcome
        model = f"model   {outcome.outcome}, adjustment {outcome.adjustment}"
        return [input_line(context.config, inputs.ratings), *inputs.features.lines(), model]


def skip_if_unchanged(context: Context[RetrainConfig]) -> None:
    """End the run if input.unchanged is skip, and ratings, rejects, settings and version are as published.

    A snapshot of an Iceberg or Delta table tells before a row is read. The fingerprint tells after validation.
    Raises NothingNew: they are the same.
    """
    run, given = context.run, context.config.input
    if given.unchanged != "skip" or context.before is None or not is_comparable(context.before.record, run.job):
        return
    last, this = context.before.record, run.facts("running", 0, None)
    same_version = this["versions"]["dcrec-spark"] == last["versions"]["dcrec-spark"]
    if not same_version or this["config_hash"] != last["config_hash"] or _settings(this) != _settings(last):
        return
    marks = []
    if run.reasons == last["reasons"]:  # a file that is all bad leaves the ratings as they were
        marks.append("data_fingerprint")
    has_features = given.user_features is not None or given.item_features is not None
    if not has_features and all(this[name] == last[name] for name in ("input_table_id", "input_window")):
        marks.append("input_snapshot")
    for mark in marks:
        if this[mark] is not None and this[mark] == last[mark]:
            run.unchanged_since = last["run_id"]
            name = mark.partition("_")[2]
            raise NothingNew(f"the ratings have the {name} {this[mark]}, as in run {last['run_id']}, which stays")


def is_comparable(record: Mapping[str, Any], job: str) -> bool:
    """Tell whether a record is of this job, and of a version that noted what is compared here."""
    return record.keys() >= _COMPARED and record["job"] == job


def _settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without days, and without the snapshot, which is compared separately."""
    settings: dict[str, Any] = json.loads(json.dumps(record["configuration"]))
    for section, name in (("run", "run_date"), ("input", "snapshot"), ("input", "since"), ("input", "until")):
        settings[section].pop(name, None)
    return settings


def _require_fillable_ranks(config: RetrainConfig, ratings: DataFrame) -> None:
    """Refuse a rank above 10 that exceeds the number of users or items. Raises ConfigError: names the setting."""
    ranks = {"exposure.rank": config.exposure.rank, "outcome.rank": config.outcome.rank}
    if max(ranks.values()) <= _ANY_RANK:
        return
    sizes = ratings.agg(*(F.countDistinct(f"{side}_id").alias(f"{side}s") for side in ("user", "item"))).collect()[0]
    fewest = min(sizes.asDict(), key=lambda name: sizes[name])
    most = max(_ANY_RANK, sizes[fewest])
    for name, rank in ranks.items():
        if rank > most:
            raise ConfigError(
                f"setting {name}: found {rank}, expected at most {most}: rank can't exceed the number of users or "
                f"items, and the ratings are of {sizes[fewest]} {fewest}"
            )


def _start_of_fit(context: Context[RetrainConfig], ratings: DataFrame) -> SavedModel | None:
    """Load the model that the fit starts from, if there is one, and warn if it knows none of the ratings' ids.

    Released at the end of the run.
    """
    path = context.config.model.warm_start
    if path is None:
        return None
    if path == PREVIOUS:
        start = load_previous(context.spark, context.before, context.run.warnings)
        if start is None:
            context.run.warnings.append(
                f"a cold start: there is no previous run with a model under {context.output} to start from"
            )
            return None
    else:
        start = load_model(context.spark, path, "model.warm_start")
    context.resources.callback(start.model.release)
    context.run.source = start.source
    ids = ratings.select(F.col("user_id").alias("id")), ratings.select(F.col("item_id").alias("id"))
    if (strangers := start_from_strangers(ids, start.model.tables())) is not None:
        context.run.warnings.append(f"{strangers} (model.warm_start={context.config.model.warm_start})")
    return start


def _fit(context: Context[RetrainConfig], inputs: RetrainInputs, ratings: DataFrame) -> AnyModel:
    """Fit both stages. Raises FitError: every prediction is the same."""
    config = context.config
    outcome = _estimator(config, inputs, ratings, inputs.start)
    exposure: PoissonFactorization = outcome.getOrDefault("exposureModel")
    iterations = {"exposure": config.exposure.max_iter, "outcome": config.outcome.max_iter}
    outcome.listener = exposure.listener = context.reporter.listener(iterations)
    outcome.checkpoints = exposure.checkpoints = checkpoints_of(context)
    members = {str(name): outcome.copy().setParams(**MEMBERS[name]) for name in config.model.blend}
    estimator = Blend(members, seed=config.run.seed) if members else outcome
    estimator.listener, estimator.checkpoints = outcome.listener, outcome.checkpoints
    with context.reporter.step("fit"):
        model = estimator.fit(ratings)
    if not any(map(_tells_items_apart, members_of(model).values())):
        raise FitError(f"{'; '.join(map(str, model.degeneracies))}; biases and gamma tell no items apart either")
    return model


def _tells_items_apart(model: DeconfoundedMFModel) -> bool:
    """Whether items are ranked: by preference factors, or else by biases, covariates or the confounder."""
    if not vanished(model.degeneracies):
        return True
    slope = F.coalesce(F.array_max(F.transform("slopes", F.abs)), F.lit(0.0))
    users, items = model.factorTables()
    spread = F.coalesce(F.max("bias") - F.min("bias"), F.lit(0.0))
    found = [*items.agg(spread, F.max(slope)).collect()[0], *users.agg(F.max(slope)).collect()[0]]
    if model.exposureModel is not None and not vanished(model.exposureModel.degeneracies):
        found += users.agg(F.max(F.abs("gamma"))).collect()[0]
    return bool(max(found) > _NOTHING)


def _estimator(
    config: RetrainConfig, inputs: RetrainInputs, ratings: DataFrame, start: SavedModel | None
) -> DeconfoundedMF:
    """Make both stages as configured. Raises ConfigError: the start does not fit, or an extra table can't be made."""
    shared = config.engine, config.run.seed, ratings.columns
    exposure = PoissonFactorization(**exposure_params(config.exposure, *shared))
    initial = None if start is None else start.model
    if isinstance(initial, BlendModel):
        raise ConfigError("setting model.warm_start: found a blend, expected a single model; null starts anew")
    params = {**outcome_params(config.outcome, *shared), **inputs.features.params()}
    outcome = DeconfoundedMF(**params, exposureModel=exposure, initialModel=initial)
    outcome.setExposureWeight(config.recommend.exposure_weight or 0.0)
    family = consistent_family_of(outcome)
    if "intervals" in config.recommend.extra and not isinstance(family, Assessing):
        raise ConfigError(
            "setting recommend.extra: found intervals, expected a list without it for outcome.outcome="
            f"{config.outcome.outcome}, which has no intervals of scores"
        )
    require_exposure(config.recommend, family.has_confounder, f"outcome.adjustment={config.outcome.adjustment}")
    try:
        outcome.checkInitialModel(ratings)
    except ConfigError as error:
        raise ConfigError(f"setting model.warm_start: {error}; null starts anew") from error
    return outcome
