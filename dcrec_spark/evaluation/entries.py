"""One partition's rows -> the metrics of its users and of its items, entry by entry.

Everything is in the order of the ids from the start, so results depend neither on the order of rows nor on partitions.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.measures import Measure, MeasureKind, MetricSettings
from dcrec_spark.evaluation.tally import OfModel, Tally
from dcrec_spark.kernels import metrics as kernel
from dcrec_spark.kernels.bootstrap import Cells, Pooled
from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.kernels.metrics import Lists, PerRow

# The cut of a measure for which every place of a list counts.
WHOLE_LIST = None


def rating_tally(table: pa.Table, settings: MetricSettings) -> Tally:
    """Tally rows ``user_key, item, item_key, rating, prediction_0, ...``, and perhaps ``weight``.

    A user's list are his test items.
    """
    table, counts = _with_ids(table, ["user_key", "item"])
    rating = table["rating"].to_numpy()
    models = [name for name in table.column_names if name.startswith("prediction_")]
    prediction = np.column_stack([table[name].to_numpy() for name in models])
    good, predicted = _is_rating(rating, settings), np.isfinite(prediction)
    complete = predicted.all(axis=1)
    weighs = np.ones(table.num_rows, np.bool_)
    if "weight" in table.column_names:
        weight = table["weight"].to_numpy()
        weighs = np.isfinite(weight) & (weight >= 0)
    usable = good & complete & weighs
    counts |= {
        "unusable_ratings": int((~good).sum()),
        "unusable_weights": int((~weighs).sum()),
        "dropped": int((~complete).sum()),
        "missing": (~predicted).sum(axis=0),
    }
    of_usable = _tally_ratings(table.filter(pa.array(usable)), prediction[usable], settings)
    tested = np.unique(table["item_key"].to_numpy())
    return of_usable._replace(tested=tested, counts={**of_usable.counts, **counts})


def _is_rating(rating: Array, settings: MetricSettings) -> Array:
    highest = np.inf if settings.gain == "rel" else kernel.LARGEST_EXPONENT
    return np.isfinite(rating) & (rating <= highest)


def _tally_ratings(table: pa.Table, prediction: Array, settings: MetricSettings) -> Tally:
    """Tally usable ratings, by user, then item. prediction : (n, models)."""
    (user, user_ids), (item, item_ids) = _ids(table["user_key"]), _ids(table["item"])
    item_key = np.empty(len(item_ids), np.int64)
    item_key[item] = table["item_key"].to_numpy()
    order = np.argsort(user * len(item_key) + item)
    row_ptr, item, rating = _pointer(user, len(user_ids)), item[order], table["rating"].to_numpy()[order]
    weight = table["weight"].to_numpy()[order] if "weight" in table.column_names else None
    same = (np.diff(item) == 0) & (np.diff(rows_of(row_ptr)) == 0)
    gain, relevant, place = kernel.gains(rating, settings.gain), rating >= settings.relevance, kernel.places(row_ptr)
    cuts = [WHOLE_LIST, *settings.ks]
    per_user: dict[OfModel, PerRow | Pooled] = {}
    per_item: dict[OfModel, Array] = {}
    shown: dict[OfModel, Array] = {}
    for model, score in enumerate(prediction[order].T):
        ranked = kernel.best_first(row_ptr, score)
        lists = Lists(row_ptr, place, gain[ranked], relevant[ranked], kernel.ties(row_ptr, score[ranked]))
        for measure, part in list_metrics(lists, cuts).items():
            move = np.empty(len(ranked))
            move[ranked] = part.move  # back in the order of the ratings
            per_user[OfModel(model, measure)] = part._replace(move=move)
        error = (np.clip(score, *settings.clip) if settings.clip else score) - rating
        for kind, of_items, loss in (
            (MeasureKind.MSE, MeasureKind.ITEM_MSE, error**2),
            (MeasureKind.MAE, MeasureKind.ITEM_MAE, np.abs(error)),
        ):
            per_user[OfModel(model, Measure(kind))] = Pooled(loss)
            per_item[OfModel(model, Measure(of_items))] = loss
        for k in settings.ks:
            listed = np.bincount(item[ranked[place <= k]], minlength=len(item_key)) > 0
            shown[OfModel(model, Measure(MeasureKind.COVERAGE, k))] = listed
    cells = Cells(row_ptr, item, user_ids.to_numpy(), item_key, weight)
    return Tally(cells, per_user, per_item, shown, item_key, {"users": len(user_ids), "duplicates": int(same.sum())})


def list_metrics(lists: Lists, cuts: Sequence[int | None]) -> dict[Measure, PerRow]:
    """NDCG at each cut (None: the whole list), with recall, precision and MAP where the cut is a number."""
    metrics: dict[Measure, PerRow] = {}
    for cut in cuts:
        metrics[Measure(MeasureKind.NDCG, cut)] = kernel.ndcg(lists, np.inf if cut is WHOLE_LIST else float(cut))
        if cut is not WHOLE_LIST:
            metrics |= {
                Measure(MeasureKind(name), cut): metric for name, metric in kernel.hit_metrics(lists, cut).items()
            }
    return metrics


def ranking_tally(table: pa.Table, settings: MetricSettings) -> Tally:
    """Tally recommendations, which are judged by the user's test ratings where there are any.

    It takes rows ``user_key, item_key, rank, rating, tested``: recommendations have a rank, test rows are tested.
    """
    table, counts = _with_ids(table, ["user_key", "item_key"])
    tested = table["tested"].to_numpy()
    rank, rating = (table[name].to_numpy().astype(np.float64) for name in ("rank", "rating"))
    (user, user_ids), (item, item_ids) = _ids(table["user_key"]), _ids(table["item_key"])
    width = len(item_ids)
    pair, at = np.unique(user * width + item, return_inverse=True)
    place, test_rating = np.full(len(pair), np.inf), np.full(len(pair), -1.0)
    listed = np.where(rank >= 1, rank, np.inf)  # what is no rank is counted as a fault
    place[at[~tested]], test_rating[at[tested]] = listed[~tested], rating[tested]
    counts |= {
        "unusable_ratings": int((tested & ~_is_rating(rating, settings)).sum()),
        "unusable_ranks": int((~tested & ~(rank >= 1)).sum()),
        "duplicates": int(sum(chosen.sum() - len(np.unique(at[chosen])) for chosen in (tested, ~tested))),
    }
    shown = {
        OfModel(0, Measure(MeasureKind.COVERAGE, k)): np.bincount(pair[place <= k] % width, minlength=width) > 0
        for k in settings.ks
    }
    ids = user_ids.to_numpy(), item_ids.to_numpy()
    cells, per_user, more = _judge(ids, pair, place, test_rating, settings)
    with_test = np.unique(table["item_key"].to_numpy()[tested])
    return Tally(cells, per_user, {}, shown, with_test, counts | more)


def _judge(
    ids: tuple[Array, Array], pair: Array, place: Array, rating: Array, settings: MetricSettings
) -> tuple[Cells, dict[OfModel, PerRow | Pooled], dict[str, int | Array]]:
    """Measure the users who have test ratings. ids : users and items. place, rating : of each pair, -1 for none."""
    (user_key, item_key), (user, item) = ids, np.divmod(pair, max(1, len(ids[1])))
    has_test = np.bincount(user, rating >= 0, len(user_key)) > 0
    judged = has_test[user]
    order = np.lexsort((place[judged], user[judged]))
    user, item, place, rating = (column[judged][order] for column in (user, item, place, rating))
    code = np.cumsum(has_test) - 1
    n_users = int(has_test.sum())
    row_ptr = _pointer(code[user], n_users)
    gain = np.where(rating >= 0, kernel.gains(rating, settings.gain), 0.0)
    lists = Lists(row_ptr, place, gain, rating >= settings.relevance, np.arange(len(place)))  # ranks have no ties
    per_user: dict[OfModel, PerRow | Pooled] = {
        OfModel(0, measure): part for measure, part in list_metrics(lists, settings.ks).items()
    }
    per_user |= {
        OfModel(0, Measure(MeasureKind.HIT_RATING, k, over_catalogue=True)): Pooled(
            rating, ((place <= k) & (rating >= 0)).astype(np.float64)
        )
        for k in settings.ks
    }
    listed = np.bincount(code[user], np.isfinite(place), n_users)
    twice = (user[1:] == user[:-1]) & (place[1:] == place[:-1]) & np.isfinite(place[1:])
    counts: dict[str, int | Array] = {
        "users": n_users,
        "users_without_list": int((listed == 0).sum()),
        "ranks_given_twice": int(twice.sum()),
        "lists_of_k": np.array([(listed >= k).sum() for k in settings.ks]),
    }
    return Cells(row_ptr, item, user_key[has_test], item_key), per_user, counts


def _with_ids(table: pa.Table, columns: list[str]) -> tuple[pa.Table, dict[str, int | Array]]:
    known = pc.and_(*(pc.is_valid(table[name]) for name in columns))
    rows = table.num_rows
    table = table.filter(known)
    return table, {"rows": rows, "null_ids": rows - table.num_rows}


def _ids(column: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """Place of each row's id among the distinct ids, (n,), and these, sorted. Strings by their bytes, as in Spark."""
    encoded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    code_of = np.empty(len(order), np.int64)
    code_of[order.to_numpy()] = np.arange(len(order))
    return code_of[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order)


def _pointer(row: Array, n_rows: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
