"""Metrics of predictions and of recommendations against held-out ratings, on Spark, with bootstrap intervals.

Each takes one job with one exchange of the rows, by user, and one of the errors, by item. Only sums reach the driver.
Users and items are identified by 64-bit hashes of their ids: with a million users, two collide with a probability of
3e-8.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.entries import ranking_tally, rating_tally
from dcrec_spark.evaluation.lists import ListComposition, describe_lists
from dcrec_spark.evaluation.measures import PLAIN_COLUMNS, USUAL_METRICS, Columns, Measure, MeasureKind, MetricSettings
from dcrec_spark.evaluation.result import Metrics, Score
from dcrec_spark.evaluation.tally import GROUP, NOTHING, Sums, add_up, add_up_here
from dcrec_spark.models.fitting.checks import require_columns


def evaluate(
    predictions: DataFrame,
    models: Mapping[str, str] | str = "prediction",
    columns: Columns = PLAIN_COLUMNS,
    settings: MetricSettings = USUAL_METRICS,
    catalogue_size: int | None = None,
) -> Metrics:
    """Ranking metrics over each user's test items, errors over test ratings and over items.

    predictions : a row for each test rating, with a column of predictions for each model.
    models : name of a model -> its column. Or the column of the only one.
    columns : names of the columns of users, items and test ratings, and of their weights, if they have some.
    settings : variants of the metrics, and the bootstrap.
    catalogue_size : number of items that could be recommended. Without it there is no ``coverage@k``, the share of them
        that is among the first k test items of some user.

    Returns for each model ``ndcg`` (of the whole list), ``ndcg@k``, ``recall@k``, ``precision@k``, ``map@k``, means
    over users. ``mse``, ``mae``, means over ratings, by their weights. ``item_mse``, ``item_mae``, means over items of
    each item's mean. ``coverage@k``, which has no interval, equal predictions standing in the order of the item ids.
    Elsewhere equal predictions share their places: a metric is its mean over their orders. A metric that no user has is
    NaN, with n = 0. ``counts["items_missing"]``: test items whose ratings were all dropped, so that no item metric has
    them.

    Raises DataError: a column is missing or of the wrong type. There are no test ratings. An id is null, a rating
    cannot be used, a pair is given twice. A prediction is NaN, null or infinite, unless ``settings.missing`` is "drop".

    Examples
    --------
    Two models on the same test ratings, and the difference between them:

    >>> both = join_predictions({"one": model.transform(ratings), "other": model.transform(ratings)})
    >>> metrics = evaluate(both, models={"one": "one", "other": "other"})
    >>> metrics.difference("one", "other").estimates()["mse"].value
    0.0
    """
    found = evaluate_groups(predictions, F.lit(0), models, columns, settings, catalogue_size)
    if not found:
        _require_ratings(NOTHING, columns)
    return found[0]


def evaluate_groups(
    predictions: DataFrame,
    group: Column,
    models: Mapping[str, str] | str = "prediction",
    columns: Columns = PLAIN_COLUMNS,
    settings: MetricSettings = USUAL_METRICS,
    catalogue_size: int | None = None,
) -> dict[int, Metrics]:
    """Metrics of the rows of each group, a whole number, in one pass over all: :func:`evaluate` of each."""
    of_model = {models: models} if isinstance(models, str) else dict(models)
    weight = [] if columns.weight is None else [columns.weight]
    require_columns(predictions, [columns.user, columns.item], [columns.rating, *weight, *of_model.values()])
    # In a type that sorts as the ids do.
    sortable = "string" if isinstance(predictions.schema[columns.item].dataType, StringType) else "long"
    rows = predictions.select(
        group.cast("int").alias(GROUP),
        *(_number(column).alias("weight") for column in weight),
        _key(columns.user).alias("user_key"),
        quoted(columns.item).cast(sortable).alias("item"),
        _key(columns.item).alias("item_key"),
        _number(columns.rating).alias("rating"),
        *(_number(column).alias(f"prediction_{model}") for model, column in enumerate(of_model.values())),
    )
    found = add_up(rows.repartition(GROUP, "user_key"), rating_tally, settings)
    return {
        number: _rating_metrics(sums, of_model, columns, settings, catalogue_size) for number, sums in found.items()
    }


def evaluate_arrays(
    pairs: Mapping[str, Array],
    predictions: Mapping[str, Array],
    settings: MetricSettings = USUAL_METRICS,
    catalogue_size: int | None = None,
) -> Metrics:
    """Metrics of arrays in this process, without Spark. Numbers and errors are those of :func:`evaluate`.

    pairs : (n,) arrays. ``user_key``, a hash of the user's id. ``item``, a number that sorts as the item's id.
    ``item_key``, a hash of that. ``rating``, the test rating. Perhaps ``weight``, how much it counts in ``mse`` and
    ``mae``. predictions : name of a model -> its predictions, (n,).
    """
    columns = {f"prediction_{number}": column for number, column in enumerate(predictions.values())}
    sums = add_up_here(rating_tally(pa.table({**pairs, **columns}), settings), settings)
    return _rating_metrics(sums, {name: name for name in predictions}, PLAIN_COLUMNS, settings, catalogue_size)


def _rating_metrics(
    sums: Sums, of_model: Mapping[str, str], columns: Columns, settings: MetricSettings, catalogue_size: int | None
) -> Metrics:
    _require_ratings(sums, columns)
    _require_predictions(sums, list(of_model.values()), settings)
    scores = {name: dict(_scores(sums, model, catalogue_size)) for model, name in enumerate(of_model)}
    counts = {name: int(sums.counts[name]) for name in ("rows", "users", "items", "dropped")}
    missing = counts["items"] - int(sums.counts["items_measured"])
    return Metrics(settings, scores, {**counts, "items_missing": missing})


def evaluate_ranking(
    recommendations: DataFrame,
    test: DataFrame,
    catalogue_size: int,
    model: str = "model",
    columns: Columns = PLAIN_COLUMNS,
    settings: MetricSettings = USUAL_METRICS,
    training: DataFrame | None = None,
) -> Metrics:
    """Metrics of lists drawn from the whole catalogue, against test ratings.

    Test ratings that users chose to give favour what is popular. So read them next to ``catalogue_hit_rating@k``.

    recommendations : ``user_id, rank`` (from 1) and ``item_id``, as recommendationTable gives them. Leave out what a
        user has rated in training. Lists should be as long as the largest k.
    test : a row for each test rating, with the columns that ``columns`` names.
    catalogue_size : number of items that could be recommended.
    model : name of the model in the result.
    columns, settings : as for :func:`evaluate`, of ``test``.
    training : ``item_id``, a row for each rating of the fit. With it there are measures of what the lists consist of.

    Returns ``catalogue_ndcg@k``, ``catalogue_recall@k``, ``catalogue_precision@k``, ``catalogue_map@k`` over users with
    test ratings: an item without a test rating is no gain and no hit, and a user without recommendations has missed
    everything (``counts["users_without_list"]``). ``catalogue_coverage@k``: over all lists of the table.
    ``catalogue_hit_rating@k``: mean test rating of the places that have one, NaN where none has. With ``training``, of
    the longest k and without intervals, the shares and the popularity of :class:`dcrec_spark.ListComposition`.

    Raises DataError: a column is missing or of the wrong type. There are no test ratings. An id is null, a rating or
    rank cannot be used. A pair or a rank is given twice. No list is as long as a k.

    Examples
    --------
    >>> lists = model.recommendationTable(2)
    >>> metrics = evaluate_ranking(lists, ratings, catalogue_size=6, settings=MetricSettings(ks=(2,)))
    >>> 0 <= metrics.as_dict()["catalogue_ndcg@2"] <= 1
    True
    """
    require_columns(recommendations, ["user_id", "item_id"], ["rank"])
    require_columns(test, [columns.user, columns.item], [columns.rating])
    listed = _entries(recommendations, "user_id", "item_id", rank="rank")
    tested = _entries(test, columns.user, columns.item, rating=columns.rating)
    by_user = listed.unionByName(tested).withColumn(GROUP, F.lit(0)).repartition("user_key")
    sums = add_up(by_user, ranking_tally, settings).get(0, NOTHING)
    shown = recommendations.where(F.col("rank") <= settings.ks[-1])
    composition = None if training is None else describe_lists(shown, training)
    return _ranking_metrics(sums, catalogue_size, model, columns, settings, composition)


def ranking_metrics(
    entries: pa.Table,
    catalogue_size: int,
    model: str,
    settings: MetricSettings,
    composition: ListComposition | None = None,
) -> Metrics:
    """Metrics of lists in this process, without Spark. The numbers are those of :func:`evaluate_ranking`.

    entries : as :func:`dcrec_spark.evaluation.entries.ranking_tally` takes them.
    """
    sums = add_up_here(ranking_tally(entries, settings), settings)
    return _ranking_metrics(sums, catalogue_size, model, PLAIN_COLUMNS, settings, composition)


def _ranking_metrics(
    sums: Sums,
    catalogue_size: int,
    model: str,
    columns: Columns,
    settings: MetricSettings,
    composition: ListComposition | None,
) -> Metrics:
    _require_ratings(sums, columns)
    for k, lists in zip(settings.ks, sums.counts["lists_of_k"], strict=True):
        if not lists:
            raise DataError(f"no user with test ratings has a list of {k} recommendations: rank more, or ask for less")
    scores = {Measure(of.kind, of.k, over_catalogue=True): score for of, score in _scores(sums, 0, catalogue_size)}
    if composition is not None:
        for kind, value in composition.measures.items():
            measure = Measure(kind, settings.ks[-1], over_catalogue=True)
            scores[measure] = Score(np.array([value]), composition.places, units=0)
    counts = {name: int(sums.counts[name]) for name in ("rows", "users", "users_without_list")}
    return Metrics(settings, {model: scores}, counts)


def _entries(frame: DataFrame, user: str, item: str, rank: str | None = None, rating: str | None = None) -> DataFrame:
    """Pairs by their keys: places of lists, which have a rank, or tested ones, which have a rating."""
    keys = _key(user).alias("user_key"), _key(item).alias("item_key")
    nothing = F.lit(None).cast("double")
    numbers = [(_number(of) if of else nothing).alias(name) for name, of in (("rank", rank), ("rating", rating))]
    return frame.select(*keys, *numbers, F.lit(rating is not None).alias("tested"))


def join_predictions(
    frames: Mapping[str, DataFrame], columns: Columns = PLAIN_COLUMNS, prediction: str = "prediction"
) -> DataFrame:
    """Predictions of several models for the same test ratings, side by side.

    frames : name of a model -> its ``user, item, rating, prediction``.
    columns : names of the columns of users, items and test ratings in each frame.
    prediction : column of the predictions in each frame.

    Returns the columns of ``columns`` and one for each model, called as the model. A pair that some frame lacks gets no
    prediction there, so that ``evaluate`` refuses it or drops it for all. Where frames disagree about the rating it is
    null, and refused.

    Examples
    --------
    >>> both = join_predictions({"one": model.transform(ratings), "other": model.transform(ratings)})
    >>> both.columns
    ['user', 'item', 'rating', 'one', 'other']
    """
    keys = [columns.user, columns.item]
    named = [
        frame.select(*map(quoted, keys), quoted(columns.rating).alias(f"__rating_{n}"), quoted(prediction).alias(m))
        for n, (m, frame) in enumerate(frames.items())
    ]
    joined = reduce(lambda one, other: one.join(other, keys, "full"), named)
    ratings = [F.col(f"__rating_{number}") for number in range(len(named))] * 2  # least takes two or more
    agreed = F.when(F.least(*ratings) == F.greatest(*ratings), F.least(*ratings))
    return joined.select(*map(quoted, keys), agreed.alias(columns.rating), *map(quoted, frames))


def _number(column: str) -> Column:
    return quoted(column).cast("double")


def _key(column: str) -> Column:
    """Hash an id, null for none. An integer hashes as its digits, so its type does not matter."""
    return F.when(quoted(column).isNotNull(), F.xxhash64(quoted(column).cast("string")))


def _scores(sums: Sums, model: int, catalogue_size: int | None) -> Iterator[tuple[Measure, Score]]:
    users, ratings = int(sums.counts["users"]), int(sums.counts["rows"] - sums.counts.get("dropped", 0))
    for (number, measure), parts in sums.measures.items():
        if number != model:
            continue
        if measure.kind in (MeasureKind.MSE, MeasureKind.MAE):
            yield measure, _score(parts, ratings, users)
        elif measure.kind is MeasureKind.HIT_RATING:
            yield measure, _score(parts, users, users)  # models that are compared have different hits
        elif measure.kind is not MeasureKind.COVERAGE:
            yield measure, _score(parts, int(parts[0, 1]), int(parts[0, 1]))
        elif catalogue_size is not None:
            shown = int(parts[0, 0])
            if shown > catalogue_size:
                raise ConfigError(
                    f"catalogue_size: found {catalogue_size}, expected at least the {shown} items that are shown"
                )
            yield measure, Score(np.array([shown / catalogue_size]), catalogue_size, units=0)


def _score(parts: Array, n: int, units: int) -> Score:
    total, weight = parts.T
    return Score(np.divide(total, weight, out=np.full(len(weight), np.nan), where=weight > 0), n, units)


def _require_ratings(sums: Sums, columns: Columns) -> None:
    rows = int(sums.counts.get("rows", 0))
    if not rows:
        raise DataError(
            "there is nothing to evaluate: no test ratings are left. Is the test set empty, or are its users or "
            "items unknown to a model whose coldStartStrategy drops them?"
        )
    faults = {
        "null_ids": f"{columns.user} or {columns.item} is null",
        "unusable_ratings": f"{columns.rating} is null, infinite, or over 1000 where gain is a power of 2",
        "unusable_weights": f"{columns.weight} is null, infinite or negative",
        "unusable_ranks": "rank is null, or below 1",
        "duplicates": f"they repeat a pair of {columns.user} and {columns.item}; keep one",
        "ranks_given_twice": "they repeat a rank of their user",
    }
    for name, fault in faults.items():
        if faulty := int(sums.counts.get(name, 0)):
            raise DataError(f"{faulty} of {rows} rows cannot be evaluated: {fault}")


def _require_predictions(sums: Sums, columns: Sequence[str], settings: MetricSettings) -> None:
    rows, dropped = int(sums.counts["rows"]), int(sums.counts["dropped"])
    if dropped and settings.missing == "refuse":
        missing = zip(sums.counts["missing"].tolist(), columns, strict=True)
        each = ", ".join(f"{number} in column {name!r}" for number, name in missing)
        raise DataError(
            f"{dropped} of {rows} test ratings have no finite prediction ({each}), as users and items have that were "
            "not in training: predict with coldStartStrategy mean or drop, or evaluate with missing='drop', and mind n"
        )
    if dropped == rows:
        raise DataError(
            f"none of the {rows} test ratings has a finite prediction: are they of the same users and items?"
        )
