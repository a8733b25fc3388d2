"""Two ways to fit candidates: in memory, many at a time with a task each. Or on the cluster, one after the other.

Both give the same metrics up to rounding. Each exposure model is fitted once and shared by its candidates.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config.jobs import TuneConfig
from dcrec_spark.config.stages import EngineConfig, exposure_params, outcome_params
from dcrec_spark.errors import DataError, FitError
from dcrec_spark.evaluation.measures import Columns, Measure, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking
from dcrec_spark.evaluation.splits import split_by_time, split_within_users
from dcrec_spark.evaluation.weights import weigh_by_exposure, weights_by_exposure
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.tune.candidates import Candidate
from dcrec_spark.local.attempts import VANISHED, Measured, try_exposure, try_outcome
from dcrec_spark.local.data import Gathered, gather
from dcrec_spark.local.fits import fit_exposure, ignore_progress
from dcrec_spark.local.side_by_side import ROUNDS, side_by_side
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.fitting.facts import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.spark.lineage import cores

COLUMNS = Columns("user_id", "item_id", "rating")

# A candidate and its result.
Attempt = tuple[Candidate, Measured | FitError]


class Split(NamedTuple):
    """user_id, item_id, rating, ... to fit to and to choose by."""

    train: DataFrame
    validation: DataFrame


def split(config: TuneConfig, ratings: DataFrame, validation: DataFrame | None) -> Split:
    """Hold ratings out as configured, by hash or by time, where there are none to choose by.

    validation : ratings of ``tuning.validation_path``. Their pairs are left out of those of the fit.
    """
    if validation is not None:
        pair = [COLUMNS.user, COLUMNS.item]
        return Split(ratings.join(validation.select(*pair), pair, "left_anti").select(ratings.columns), validation)
    share, seed = config.tuning.validation_share, config.run.seed
    cut = split_by_time if config.tuning.split == "time" else split_within_users
    return Split(*cut(ratings, (1 - share, share), seed=seed, columns=COLUMNS))


def metric_settings(config: TuneConfig) -> MetricSettings:
    """Variants of the usual metrics, and of the cut of ``tuning.metric``."""
    k = Measure.parse(config.tuning.metric).k or 5
    return MetricSettings((5, k), config.evaluation.relevant_from, seed=config.run.seed)


def list_length(config: TuneConfig) -> int:
    """Places of the lists that the metric needs. 0 where it is not of lists from the whole catalogue."""
    measure = Measure.parse(config.tuning.metric)
    return (measure.k or 0) if measure.over_catalogue else 0


def fits_in_memory(config: TuneConfig, candidates: Sequence[Candidate], columns: Sequence[str]) -> bool:
    """Whether a fit in memory has all that the candidates ask for: no exposure counts, no given propensities."""
    with_exposure = config.tuning.weights == "exposure" or any(candidate.exposure for candidate in candidates)
    weighted = any(candidate.outcome.adjustment == "ipw" for candidate in candidates)
    return not (("count" in columns and with_exposure) or ("propensity" in columns and weighted))


@dataclass(frozen=True)
class InMemory:
    """Each trial is one task with all ratings in its memory. wave : results that are recorded together."""

    config: TuneConfig
    spark: SparkSession
    ratings: Gathered
    wave: int

    @classmethod
    def open(cls, context: Context[TuneConfig], held_out: Split) -> Self:
        """Bring both parts to the driver. Raises DataError: a part is empty."""
        config, spark = context.config, context.spark
        gathered = gather(*held_out, COLUMNS)
        known = gathered.select_known()
        sizes = [len(part) for part in (known.train.rating, gathered.held_out["rating"], known.held_out["rating"])]
        _note_sizes(context.run, config, *sizes)
        ratings = known.compact()
        if config.tuning.weights == "exposure":  # by one exposure model for all candidates
            weighing = PoissonFactorization(**exposure_params(config.exposure, config.engine, config.run.seed, []))
            a_hat = fit_exposure(ratings.train, weighing).at(ratings.held_out["user"], ratings.held_out["item"])
            ratings = ratings._replace(held_out={**ratings.held_out, "weight": weights_by_exposure(a_hat)})
        return cls(config, spark, ratings, ROUNDS * cores(spark))

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Attempt]:
        """Yield results in the order of the candidates."""
        shared: tuple[EngineConfig, int, list[str]] = self.config.engine, self.config.run.seed, []
        stages = {c.stage_one: exposure_params(c.exposure, *shared) for c in candidates if c.exposure is not None}
        stage_ones = side_by_side(self.spark, self.ratings.train, list(stages.values()), try_exposure)
        exposures = dict(zip(stages, stage_ones, strict=True))
        works = [(outcome_params(c.outcome, *shared), c.stage_one) for c in candidates]
        fit = partial(try_outcome, settings=metric_settings(self.config), length=list_length(self.config))
        with closing(side_by_side(self.spark, (self.ratings, exposures), works, fit)) as results:
            yield from zip(candidates, results, strict=True)


@dataclass(frozen=True)
class OnCluster:
    """Each trial is fitted by the estimators, on the whole cluster."""

    config: TuneConfig
    parts: Split
    features: Mapping[str, Any]
    wave: int = 1

    @classmethod
    def open(cls, context: Context[TuneConfig], held_out: Split, features: Mapping[str, Any]) -> Self:
        """Cache both parts, which are released with the job. Raises DataError: a part is empty."""
        config, train, validation = context.config, context.cache(held_out.train), context.cache(held_out.validation)
        known = validation
        for side in (COLUMNS.user, COLUMNS.item):
            known = known.join(train.select(side).distinct(), side, "left_semi")
        known = context.cache(known.select(train.columns))
        _note_sizes(context.run, config, train.count(), validation.count(), known.count())
        if config.tuning.weights == "exposure":  # by one exposure model for all candidates
            params = exposure_params(config.exposure, config.engine, config.run.seed, train.columns)
            exposure = PoissonFactorization(**params).fit(train)
            context.resources.callback(exposure.release)
            known = context.cache(weigh_by_exposure(exposure.transform(known)))
        return cls(config, Split(train, known), features)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Attempt]:
        """Fit the candidates of each exposure model, then release it."""
        ordered = sorted(candidates, key=lambda candidate: candidate.stage_one)
        for _, sharing in groupby(ordered, key=lambda candidate: candidate.stage_one):
            group = list(sharing)
            try:
                model = None
                if (stage := group[0].exposure) is not None:
                    estimator = PoissonFactorization(**exposure_params(stage, *self._shared()))
                    estimator.listener = ignore_progress
                    model = estimator.fit(self.parts.train)
            except FitError as error:
                yield from ((candidate, error) for candidate in group)
                continue
            try:
                for candidate in group:
                    yield candidate, self._fit(candidate, model)
            finally:
                if model is not None:
                    model.release()

    def _shared(self) -> tuple[EngineConfig, int, list[str]]:
        return self.config.engine, self.config.run.seed, self.parts.train.columns

    def _fit(self, candidate: Candidate, exposure: PoissonFactorizationModel | None) -> Measured | FitError:
        params = {**outcome_params(candidate.outcome, *self._shared()), **self.features}
        estimator = DeconfoundedMF(**params, exposureModel=exposure)
        estimator.listener = ignore_progress
        start = time.perf_counter()
        try:
            model = estimator.fit(self.parts.train)
        except FitError as error:
            return error
        seconds = time.perf_counter() - start
        try:
            # Slopes on features rank items where no preference factor is left.
            has_features = any(table is not None for table in self.features.values())
            if vanished(model.degeneracies) and not has_features:
                return FitError(VANISHED)
            train, test = self.parts
            columns = replace(COLUMNS, weight="weight" if self.config.tuning.weights == "exposure" else None)
            settings, size = metric_settings(self.config), model.numItems
            metrics = evaluate(model.transform(test), columns=columns, settings=settings, catalogue_size=size)
            if length := list_length(self.config):
                lists = model.recommendationTable(length, seen=train).persist()  # read three times
                of_length = replace(settings, ks=(length,))
                metrics = metrics.join(evaluate_ranking(lists, test, size, "prediction", COLUMNS, of_length, train))
                lists.unpersist()
            return Measured(metrics, len(model.objectiveHistory), seconds)
        finally:
            model.release()


# Ways to fit candidates: both yield each of them with its result, in any order.
Fits = InMemory | OnCluster


def _note_sizes(run: Run, config: TuneConfig, train: int, held_out: int, known: int) -> None:
    """Note the ratings of each part, and the held-out ones that can't be used. Raises DataError: a part is empty."""
    unknown = held_out - known
    if not train or not known:
        setting = "validation_share" if config.tuning.validation_path is None else "validation_path"
        raise DataError(
            f"setting tuning.{setting} leaves {train} ratings to fit to and {known} to choose by "
            f"({unknown} more are of users or items without any to fit to); expected some of both"
        )
    run.counts |= {"train": train, "held_out": known}
    if unknown:
        run.counts["held_out_unknown"] = unknown
        run.warnings.append(
            f"{unknown} of the ratings held out are of users or items without any to fit to, and were not used"
        )
