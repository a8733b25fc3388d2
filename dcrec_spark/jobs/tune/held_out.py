"""Ratings to fit to, and ratings to choose by."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql import DataFrame

from dcrec_spark.config import TuneConfig
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.settings import Columns, MetricSettings
from dcrec_spark.evaluation.splits import split_by_time, split_within_users
from dcrec_spark.evaluation.weights import weigh_by_exposure
from dcrec_spark.jobs.estimator_settings import exposure_params
from dcrec_spark.jobs.metric_settings import metric_settings as configured
from dcrec_spark.local.data import Parts, gather
from dcrec_spark.local.weights import weights_of
from dcrec_spark.models.exposure.estimator import PoissonFactorization

COLUMNS = Columns("user_id", "item_id", "rating")
_WEIGHT = "weight"
_USUAL_K = 5


class Sizes(NamedTuple):
    """Ratings in each part; of those held out, ``unknown`` are of a user or item without training, and not used."""

    train: int
    validation: int
    unknown: int


class Split(NamedTuple):
    """user_id, item_id, rating, ... of both parts. On the cluster, cached, or not yet computed."""

    train: DataFrame
    validation: DataFrame


def require_times(config: TuneConfig, columns: list[str]) -> None:
    """ConfigError where the split is by time, and the ratings have none."""
    if config.tuning.split == "time" and "timestamp" not in columns:
        raise ConfigError("setting tuning.split=time: the input has no timestamps; set input.columns.timestamp")


def split(config: TuneConfig, ratings: DataFrame) -> Split:
    """Hold out as configured, by hash or by time; nothing is computed yet, but for the moment that parts times."""
    share, seed = config.tuning.validation_share, config.run.seed
    cut = split_by_time if config.tuning.split == "time" else split_within_users
    return Split(*cut(ratings, (1 - share, share), seed=seed, columns=COLUMNS))


def gather_known(parts: Split) -> tuple[Parts, Sizes]:
    """Parts ``train`` and ``validation`` in this process, of users and items that have training.

    Raises
    ------
    ConfigError : they are too many. DataError : nothing is left of a part.
    """
    try:
        whole = gather(parts._asdict(), COLUMNS)
    except ConfigError as error:
        raise ConfigError(f"setting tuning.side_by_side: {error}, with false") from error
    known = whole.known("validation", ("train",))
    n_train, n_all, n_known = (
        len(of["rating"]) for of in (known.of["train"], whole.of["validation"], known.of["validation"])
    )
    return known, _usable(n_train, n_all, n_known)


def cache_known(parts: Split, resources: ExitStack) -> tuple[Split, Sizes]:
    """Both parts cached on the cluster, of users and items that have training; released with ``resources``.

    Raises
    ------
    DataError : nothing is left of a part.
    """
    train, held_out = _cached(parts.train, resources), _cached(parts.validation, resources)
    known = held_out
    for side in (COLUMNS.user, COLUMNS.item):
        known = known.join(train.select(side).distinct(), side, "left_semi")
    known = _cached(known.select(train.columns), resources)
    return Split(train, known), _usable(train.count(), held_out.count(), known.count())


# ---- weights, where the errors are to stand for random pairs


def weigh_here(config: TuneConfig, parts: Parts) -> Parts:
    """Give the validation's pairs their weights, where the configuration asks for some."""
    if config.tuning.weights == "none":
        return parts
    return parts.weighed("validation", weights_of(parts, "validation", "train", _reference(config, [])))


def weigh_there(config: TuneConfig, parts: Split, resources: ExitStack) -> Split:
    """Do the same on the cluster; released with ``resources``."""
    if config.tuning.weights == "none":
        return parts
    exposure = _reference(config, parts.train.columns).fit(parts.train)
    resources.callback(exposure.release)
    return parts._replace(validation=_cached(weigh_by_exposure(exposure.transform(parts.validation)), resources))


def columns(config: TuneConfig) -> Columns:
    """Name the columns of a measured part on the cluster."""
    return COLUMNS if config.tuning.weights == "none" else replace(COLUMNS, weight=_WEIGHT)


def _reference(config: TuneConfig, columns: Sequence[str]) -> PoissonFactorization:
    """Make the exposure model that weighs, the same for all candidates."""
    return PoissonFactorization(**exposure_params(config.exposure, config.engine, config.run.seed, columns))


def _usable(n_train: int, n_held_out: int, n_known: int) -> Sizes:
    if not n_train or not n_known:
        raise DataError(
            f"setting tuning.validation_share leaves {n_train} ratings to fit to and {n_known} to choose by "
            f"({n_held_out - n_known} more are of users or items without any to fit to); expected some of both"
        )
    return Sizes(n_train, n_known, n_held_out - n_known)


def metric_settings(config: TuneConfig) -> MetricSettings:
    """Return the usual metrics, and those of the list that ``tuning.metric`` asks for."""
    _, _, k = config.tuning.metric.partition("@")
    return configured(config.evaluation, config.run.seed, (_USUAL_K, int(k or _USUAL_K)))


def _cached(frame: DataFrame, resources: ExitStack) -> DataFrame:
    resources.callback(frame.unpersist)
    return frame.persist()
