"""One partition's rows -> the values of its users and the sums of its items.

Everything is in the order of the ids from the start, so neither the order of rows nor the partitions leave a trace,
and equal scores are ranked by item id.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.measures import Kind, Measure
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.evaluation.tally import OfModel, Tally
from dcrec_spark.kernels import metrics as kernel
from dcrec_spark.kernels.metrics import Lists, PerRow

# The cut of a list that counts to its end.
WHOLE_LIST = None


class Ids(NamedTuple):
    """code : (n,) each row's place among the distinct ids, in their order. distinct : the ids, sorted."""

    code: Array
    distinct: pa.Array


class Ratings(NamedTuple):
    """Test ratings by user, then item; user_key and item_key: hashes of the distinct ids, in the order of the ids.

    row_ptr : (U + 1,) where each user's ratings begin. item : (n,) place of the rating's item in ``item_key``.
    rating : (n,). prediction : (n, models).
    """

    user_key: Array
    row_ptr: Array
    item_key: Array
    item: Array
    rating: Array
    prediction: Array


def rating_tally(n_models: int, settings: MetricSettings) -> Callable[[pa.Table], Tally]:
    """Tally of test ratings, where a user's list are his test items.

    Parameters
    ----------
    n_models : int
        Columns of predictions.
    settings : MetricSettings
        Variants of the measures.

    Returns
    -------
    callable
        Takes rows ``user_key, item, item_key, rating, prediction_0, ...``.
    """

    def tally(table: pa.Table) -> Tally:
        table, counts = _with_ids(table, ["user_key", "item"])
        rating = table["rating"].to_numpy()
        prediction = np.column_stack([table[f"prediction_{model}"].to_numpy() for model in range(n_models)])
        good, predicted = _is_rating(rating, settings), np.isfinite(prediction)
        complete = predicted.all(axis=1)
        usable = good & complete
        ratings = _sorted_ratings(table.filter(pa.array(usable)), rating[usable], prediction[usable])
        same = (np.diff(ratings.item) == 0) & (np.diff(kernel.rows_of(ratings.row_ptr)) == 0)
        counts |= {
            "unusable_ratings": int((~good).sum()),
            "dropped": int((~complete).sum()),
            "missing": (~predicted).sum(axis=0),
            "users": len(ratings.user_key),
            "duplicates": int(same.sum()),
        }
        return _tally_ratings(ratings, counts, settings)

    return tally


def _is_rating(rating: Array, settings: MetricSettings) -> Array:
    highest = np.inf if settings.gain == "rel" else kernel.LARGEST_EXPONENT
    return np.isfinite(rating) & (rating >= 0) & (rating <= highest)


def _sorted_ratings(table: pa.Table, rating: Array, prediction: Array) -> Ratings:
    users, items = _ids(table["user_key"]), _ids(table["item"])
    item_key = np.empty(len(items.distinct), np.int64)
    item_key[items.code] = table["item_key"].to_numpy()
    order = np.argsort(users.code * len(item_key) + items.code)
    row_ptr = _pointer(users.code, len(users.distinct))
    return Ratings(users.distinct.to_numpy(), row_ptr, item_key, items.code[order], rating[order], prediction[order])


def _tally_ratings(ratings: Ratings, counts: dict[str, int | Array], settings: MetricSettings) -> Tally:
    row_ptr, rating = ratings.row_ptr, ratings.rating
    cuts = [WHOLE_LIST, *settings.ks]
    gain, relevant, place = kernel.gains(rating, settings.gain), rating >= settings.relevance, kernel.places(row_ptr)
    ideal = kernel.ideal_dcg(row_ptr, gain, _limits(cuts))
    per_user: dict[OfModel, PerRow] = {}
    per_item: dict[OfModel, PerRow] = {}
    shown: dict[OfModel, Array] = {}
    for model, score in enumerate(ratings.prediction.T):
        ranked = kernel.best_first(row_ptr, score)
        lists = Lists(row_ptr, place, gain[ranked], relevant[ranked])
        clipped = np.clip(score, *settings.clip) if settings.clip else score
        errors = kernel.error_metrics(row_ptr, rating, clipped)
        of_user = list_metrics(lists, cuts, ideal) | {Measure(Kind(name)): part for name, part in errors.items()}
        per_user |= {OfModel(model, measure): part for measure, part in of_user.items()}
        per_item |= _item_errors(ratings, clipped - rating, model)
        for k in settings.ks:
            listed = np.bincount(ratings.item[ranked[place <= k]], minlength=len(ratings.item_key)) > 0
            shown[OfModel(model, Measure(Kind.COVERAGE, k))] = listed
    return Tally(ratings.user_key, per_user, ratings.item_key, per_item, shown, counts)


def _item_errors(ratings: Ratings, error: Array, model: int) -> dict[OfModel, PerRow]:
    """Add up each item's errors, and count its ratings."""
    n_items = len(ratings.item_key)
    weight = kernel.sums_by(ratings.item, np.ones(len(ratings.item)), n_items)
    return {
        OfModel(model, Measure(kind)): PerRow(kernel.sums_by(ratings.item, values, n_items), weight)
        for kind, values in ((Kind.ITEM_MSE, error**2), (Kind.ITEM_MAE, np.abs(error)))
    }


def list_metrics(lists: Lists, cuts: Sequence[int | None], ideal: list[Array]) -> dict[Measure, PerRow]:
    """NDCG at each cut, with recall, precision and MAP where the cut is not the whole list.

    Parameters
    ----------
    lists : Lists
        Entries of each user.
    cuts : sequence of int or None
        None is the whole list.
    ideal : list of (users,) arrays
        The highest DCG of each user at each cut.

    Returns
    -------
    dict
        Values of each user by measure.
    """
    metrics: dict[Measure, PerRow] = {}
    for cut, limit, best in zip(cuts, _limits(cuts), ideal, strict=True):
        metrics[Measure(Kind.NDCG, cut)] = kernel.ndcg(lists, limit, best)
        if cut is not WHOLE_LIST:
            hits = kernel.hit_metrics(lists, cut)
            metrics |= {Measure(Kind(name), cut): metric for name, metric in hits.items()}
    return metrics


def _limits(cuts: Sequence[int | None]) -> list[float]:
    return [np.inf if cut is WHOLE_LIST else float(cut) for cut in cuts]


def ranking_tally(settings: MetricSettings) -> Callable[[pa.Table], Tally]:
    """Tally of recommendations, which are judged by the user's test ratings where there are any.

    Parameters
    ----------
    settings : MetricSettings
        Variants of the measures.

    Returns
    -------
    callable
        Takes rows ``user_key, item_key, rank, rating, tested``: recommendations have a rank, test rows are tested.
    """

    def tally(table: pa.Table) -> Tally:
        table, counts = _with_ids(table, ["user_key", "item_key"])
        tested = table["tested"].to_numpy()
        rank, rating = (table[name].to_numpy().astype(np.float64) for name in ("rank", "rating"))
        users, items = _ids(table["user_key"]), _ids(table["item_key"])
        width = len(items.distinct)
        pair, at = np.unique(users.code * width + items.code, return_inverse=True)
        place, test_rating = np.full(len(pair), np.inf), np.full(len(pair), -1.0)
        place[at[~tested]], test_rating[at[tested]] = rank[~tested], rating[tested]
        counts |= _faults(tested, rank, rating, at, settings)
        shown = {
            OfModel(0, Measure(Kind.COVERAGE, k)): np.bincount(pair[place <= k] % width, minlength=width) > 0
            for k in settings.ks
        }
        user_key, per_user, more = _judge(users.distinct.to_numpy(), pair // width, place, test_rating, settings)
        return Tally(user_key, per_user, items.distinct.to_numpy(), {}, shown, counts | more)

    return tally


def _faults(tested: Array, rank: Array, rating: Array, pair: Array, settings: MetricSettings) -> dict[str, int]:
    return {
        "unusable_ratings": int((tested & ~_is_rating(rating, settings)).sum()),
        "unusable_ranks": int((~tested & ~(rank >= 1)).sum()),
        "duplicates": int(sum(chosen.sum() - len(np.unique(pair[chosen])) for chosen in (tested, ~tested))),
    }


def _judge(
    user_key: Array, user: Array, place: Array, rating: Array, settings: MetricSettings
) -> tuple[Array, dict[OfModel, PerRow], dict[str, int | Array]]:
    """Measure the users who have test ratings. user, place, rating : of each pair; rating -1: none."""
    has_test = np.bincount(user, rating >= 0, len(user_key)) > 0
    judged = has_test[user]
    order = np.lexsort((place[judged], user[judged]))
    user, place, rating = user[judged][order], place[judged][order], rating[judged][order]
    code = np.cumsum(has_test) - 1
    n_users = int(has_test.sum())
    row_ptr = _pointer(code[user], n_users)
    gain = np.where(rating >= 0, kernel.gains(rating, settings.gain), 0.0)
    lists = Lists(row_ptr, place, gain, rating >= settings.relevance)
    per_user = list_metrics(lists, settings.ks, kernel.ideal_dcg(row_ptr, gain, settings.ks))
    listed = np.bincount(code[user], np.isfinite(place), n_users)
    twice = (user[1:] == user[:-1]) & (place[1:] == place[:-1]) & np.isfinite(place[1:])
    counts: dict[str, int | Array] = {
        "users": n_users,
        "users_without_list": int((listed == 0).sum()),
        "ranks_given_twice": int(twice.sum()),
        "lists_of_k": np.array([(listed >= k).sum() for k in settings.ks]),
    }
    return user_key[has_test], {OfModel(0, measure): metric for measure, metric in per_user.items()}, counts


def _with_ids(table: pa.Table, columns: list[str]) -> tuple[pa.Table, dict[str, int | Array]]:
    known = pc.and_(*(pc.is_valid(table[name]) for name in columns))
    rows = table.num_rows
    table = table.filter(known)
    return table, {"rows": rows, "null_ids": rows - table.num_rows}


def _ids(column: pa.ChunkedArray) -> Ids:
    """Distinct ids and their codes; strings are in the order of their bytes, as in Spark."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    code_of = np.empty(len(order), np.int64)
    code_of[order.to_numpy()] = np.arange(len(order))
    return Ids(code_of[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order))


def _pointer(row: Array, n_rows: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
