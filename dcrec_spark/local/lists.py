"""Lists of a model in this process: ranked from the whole catalogue, judged by held-out ratings or by the truth."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.lists import ListComposition
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.metrics import ranking_metrics
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.kernels.csr import group_values
from dcrec_spark.kernels.topn import Dial, top_n
from dcrec_spark.local.fits import Ints, Outcome, Ratings


class ListPlaces(NamedTuple):
    """Places of lists, (n,) each: user, rank from 1, item, and the score, which is the potential rating."""

    user: Array
    rank: Array
    item: Array
    score: Array


def rank_unseen(
    model: Outcome, seen: Ratings, n: int, exposure_weight: float = 0.0, users: Ints | None = None
) -> ListPlaces:
    """Rank the n best items of each user that ``seen`` does not have, as the fitted model of the estimator does.

    users : sorted places of those to rank for. None: all.
    """
    chosen, left_out = _seen_by(seen, users)
    n_users, n_items = len(chosen), len(model.items)
    of_users, of_items, baseline = model.users[chosen], model.items, np.full(n_users, model.intercept)
    if model.user_bias is not None and model.item_bias is not None:
        bias = model.user_bias[chosen]
        of_users = np.column_stack([of_users, bias, np.ones(n_users)])
        of_items = np.column_stack([of_items, np.ones(n_items), model.item_bias])
        baseline = baseline + bias
    dial, exposed = None, model.exposure
    if exposure_weight and exposed is not None:
        sides = np.column_stack([exposed.users[chosen], baseline]), np.column_stack([exposed.items, np.zeros(n_items)])
        dial = Dial(*sides, exposure_weight)
    # The slopes are among the preferences here.
    how = model.intercept, left_out, model.form
    ranked = top_n(n, (of_users, of_items), _confounder(model, chosen), *how, dial=dial)
    return ListPlaces(chosen[ranked.row], ranked.rank, ranked.col, ranked.score)


def rank_popular(seen: Ratings, n: int, users: Ints | None = None) -> ListPlaces:
    """Rank the n items with the most ratings in ``seen`` that each user does not have there. users : see above."""
    chosen, left_out = _seen_by(seen, users)
    counts = np.bincount(seen.item, minlength=len(seen.item_key)).astype(np.float64)
    nothing = np.zeros((len(chosen), 0)), np.zeros((len(counts), 0))
    ranked = top_n(n, (np.ones((len(chosen), 1)), counts[:, None]), nothing, 0.0, left_out)
    return ListPlaces(chosen[ranked.row], ranked.rank, ranked.col, ranked.score)


def _seen_by(seen: Ratings, users: Ints | None) -> tuple[Ints, tuple[Array, Array]]:
    if users is None:
        users = np.arange(len(seen.user_key))
    of_theirs = np.isin(seen.user, users)
    return users, group_values(np.searchsorted(users, seen.user[of_theirs]), len(users), seen.item[of_theirs])


def _confounder(model: Outcome, users: Ints) -> tuple[Array, Array]:
    if model.exposure is None:
        return np.zeros((len(users), 0)), np.zeros((len(model.items), 0))
    pi, lam, form, gamma = model.exposure.users[users], model.exposure.items, model.form, model.gamma[users]
    if not form.is_low_rank:
        return np.column_stack([pi, gamma]), np.column_stack([lam, np.zeros(len(lam))])
    return gamma[:, None] * form.row_vectors(pi, True), form.row_vectors(lam, False)


def judge(
    places: ListPlaces,
    test: Mapping[str, Array],
    train: Ratings,
    settings: MetricSettings,
    model: str = "model",
) -> Metrics:
    """Measure lists by held-out ratings, and describe them: :func:`dcrec_spark.evaluate_ranking` of arrays.

    test : ``user``, ``item``, ``rating``. train : what the lists leave out. Indices are those of ``train``.
    """
    table = {
        "user_key": train.user_key[np.concatenate([places.user, test["user"]])],
        "item_key": train.item_key[np.concatenate([places.item, test["item"]])],
        "rank": np.concatenate([places.rank, np.full(len(test["user"]), np.nan)]),
        "rating": np.concatenate([np.full(len(places.user), np.nan), test["rating"]]),
        "tested": np.repeat([False, True], [len(places.user), len(test["user"])]),
    }
    rated = np.bincount(train.item, minlength=len(train.item_key))
    listed, lists = np.bincount(places.item, minlength=len(rated)), len(np.unique(places.user))
    composition = ListComposition.of_counts(lists, listed, rated)
    return ranking_metrics(pa.table(table), int((rated > 0).sum()), model, settings, composition)
