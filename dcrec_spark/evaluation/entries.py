"""One partition's rows -> the values of its users and the sums of its items.

Everything is in the order of the ids from the start, so neither the order of rows nor the partitions leave a trace,
and equal scores are ranked by item id.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.evaluation.tally import Tally
from dcrec_spark.kernels import metrics as kernel
from dcrec_spark.kernels.metrics import Lists, PerRow

WHOLE_LIST = float("inf")


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
    """For rows ``user_key, item, item_key, rating, prediction_0, ...``: a user's list are his test items.

    Metrics are named ``<number of the model> <measure>``.
    """

    def tally(table: pa.Table) -> Tally:
        table, counts = _with_ids(table, ["user_key", "item"])
        rating = table["rating"].to_numpy()
        prediction = np.column_stack([table[f"prediction_{model}"].to_numpy() for model in range(n_models)])
        good, predicted = _is_rating(rating, settings), np.isfinite(prediction)
        complete = predicted.all(axis=1)
        counts |= {"unusable_ratings": int((~good).sum()), "dropped": int((~complete).sum())}
        counts |= {f"missing {model}": int((~column).sum()) for model, column in enumerate(predicted.T)}
        usable = good & complete
        ratings = _sorted_ratings(table.filter(pa.array(usable)), rating[usable], prediction[usable])
        same = (np.diff(ratings.item) == 0) & (np.diff(kernel.rows_of(ratings.row_ptr)) == 0)
        return _tally_ratings(
            ratings, counts | {"users": len(ratings.user_key), "duplicates": int(same.sum())}, settings
        )

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


def _tally_ratings(ratings: Ratings, counts: dict[str, int], settings: MetricSettings) -> Tally:
    row_ptr, item, rating, n_items = ratings.row_ptr, ratings.item, ratings.rating, len(ratings.item_key)
    cuts = [WHOLE_LIST, *settings.ks]
    gain, relevant, place = kernel.gains(rating, settings.gain), rating >= settings.relevance, kernel.places(row_ptr)
    ideal = kernel.ideal_dcg(row_ptr, gain, cuts)
    of_item = kernel.sums_by(item, np.ones(len(item)), n_items)
    per_user: dict[str, PerRow] = {}
    per_item: dict[str, PerRow] = {}
    shown: dict[str, Array] = {}
    for model, score in enumerate(ratings.prediction.T):
        ranked = kernel.best_first(row_ptr, score)
        lists = Lists(row_ptr, place, gain[ranked], relevant[ranked])
        clipped = np.clip(score, *settings.clip) if settings.clip else score
        found = list_metrics(lists, cuts, ideal) | kernel.error_metrics(row_ptr, rating, clipped)
        per_user |= {f"{model} {name}": metric for name, metric in found.items()}
        error = clipped - rating
        for name, values in (("item_mse", error**2), ("item_mae", np.abs(error))):
            per_item[f"{model} {name}"] = PerRow(kernel.sums_by(item, values, n_items), of_item)
        for k in settings.ks:
            shown[f"{model} coverage@{k}"] = np.bincount(item[ranked[place <= k]], minlength=n_items) > 0
    return Tally(ratings.user_key, per_user, ratings.item_key, per_item, shown, counts)


def list_metrics(lists: Lists, cuts: list[float], ideal: list[Array]) -> dict[str, PerRow]:
    """``ndcg`` of the whole list where that is among the cuts, and ``ndcg@k, recall@k, precision@k, map@k``."""
    found = {}
    for cut, best in zip(cuts, ideal, strict=True):
        suffix = "" if cut == WHOLE_LIST else f"@{cut}"
        found[f"ndcg{suffix}"] = kernel.ndcg(lists, cut, best)
        if suffix:
            found |= {f"{name}{suffix}": metric for name, metric in kernel.hit_metrics(lists, int(cut)).items()}
    return found


def ranking_tally(settings: MetricSettings) -> Callable[[pa.Table], Tally]:
    """For rows ``user_key, item_key, rank, rating, tested``: recommendations have a rank, test rows are tested.

    A user's list are his recommendations; where he has test ratings, they are judged by these.
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
        shown = {f"0 coverage@{k}": np.bincount(pair[place <= k] % width, minlength=width) > 0 for k in settings.ks}
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
) -> tuple[Array, dict[str, PerRow], dict[str, int]]:
    """The metrics of those users who have test ratings. user, place, rating : of each pair; rating -1: none."""
    has_test = np.bincount(user, rating >= 0, len(user_key)) > 0
    kept = has_test[user]
    order = np.lexsort((place[kept], user[kept]))
    user, place, rating = user[kept][order], place[kept][order], rating[kept][order]
    code = np.cumsum(has_test) - 1
    n_users = int(has_test.sum())
    row_ptr = _pointer(code[user], n_users)
    gain = np.where(rating >= 0, kernel.gains(rating, settings.gain), 0.0)
    lists = Lists(row_ptr, place, gain, rating >= settings.relevance)
    per_user = list_metrics(lists, list(settings.ks), kernel.ideal_dcg(row_ptr, gain, settings.ks))
    listed = np.bincount(code[user], np.isfinite(place), n_users)
    twice = (user[1:] == user[:-1]) & (place[1:] == place[:-1]) & np.isfinite(place[1:])
    counts = {"users": n_users, "users_without_list": int((listed == 0).sum()), "ranks_given_twice": int(twice.sum())}
    counts |= {f"lists_of {k}": int((listed >= k).sum()) for k in settings.ks}
    return user_key[has_test], {f"0 {name}": metric for name, metric in per_user.items()}, counts


def _with_ids(table: pa.Table, columns: list[str]) -> tuple[pa.Table, dict[str, int]]:
    known = pc.and_(*(pc.is_valid(table[name]) for name in columns))
    rows = table.num_rows
    table = table.filter(known)
    return table, {"rows": rows, "null_ids": rows - table.num_rows}


def _ids(column: pa.ChunkedArray) -> Ids:
    """Strings are in the order of their bytes, as in Spark."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    code_of = np.empty(len(order), np.int64)
    code_of[order.to_numpy()] = np.arange(len(order))
    return Ids(code_of[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order))


def _pointer(row: Array, n_rows: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
