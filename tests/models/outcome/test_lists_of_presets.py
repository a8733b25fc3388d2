"""The lists that each preset makes: of things that people have rated, not of single lucky ratings."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import Ratings, fit_exposure, fit_outcome
from tests.reference.poisson import Array

N = 10
FEW = 3
CASE = "one-lucky-rating.csv"


class Split(NamedTuple):
    """Four fifths of a data set to fit to, and the rest as a dense table of ratings, 0 where there is none."""

    train: Ratings
    seen: Array
    held_out: Array

    @classmethod
    def of(cls, user: Array, item: Array, rating: Array, held_out_share: float = 0.2) -> "Split":
        is_test = np.random.default_rng(0).random(len(user)) < held_out_share
        users, items = np.unique(user), np.unique(item)
        at = np.searchsorted(users, user), np.searchsorted(items, item)
        tables = np.zeros((2, len(users), len(items)))
        tables[(is_test.astype(int), *at)] = rating
        keys = [keys_of([str(each) for each in ids]) for ids in (users, items)]
        train = Ratings(at[0][~is_test], at[1][~is_test], rating[~is_test].astype(np.float64), *keys)
        return cls(train, tables[0] > 0, tables[1])


def lists_of(split: Split, scores: Array) -> Array:
    """The N best unseen items of each user, (U, N)."""
    return np.argsort(np.where(split.seen, np.inf, -scores), axis=1, kind="stable")[:, :N]


def ndcg(split: Split, lists: Array) -> float:
    """NDCG@10 over the catalogue, gain 2^rating - 1, mean of the users with a held-out rating."""
    gains = np.where(split.held_out > 0, 2.0**split.held_out - 1.0, 0.0)
    discount = 1.0 / np.log2(np.arange(N) + 2.0)
    listed = np.take_along_axis(gains, lists, axis=1) @ discount
    best = -np.sort(-gains, axis=1)[:, :N] @ discount
    return float((listed[best > 0] / best[best > 0]).mean())


def fitted(split: Split, estimator: DeconfoundedMF) -> Array:
    """The lists of an estimator's model."""
    exposure = fit_exposure(split.train, PoissonFactorization(rank=estimator.getExposureRank()))
    model, shape = fit_outcome(split.train, estimator, exposure), split.seen.shape
    return lists_of(split, model.scores(*np.nonzero(np.ones(shape))).reshape(shape))


def coat(folder: Path) -> Split:
    table = np.loadtxt(folder / "coat" / "train.ascii")
    user, item = np.nonzero(table)
    return Split.of(user, item, table[user, item])


def movielens_1m(folder: Path) -> Split:
    lines = (folder / "ml-1m" / "ratings.dat").read_text().split()
    return Split.of(*np.array([line.split("::")[:3] for line in lines], dtype=np.int64).T)


def long_tail(_: Path) -> Split:
    """Draw 600 users and 900 items of very unequal popularity, of whom 3 % of the pairs are rated."""
    rng = np.random.default_rng(7)
    popularity, activity = rng.pareto(1.0, 900) + 0.02, rng.gamma(2.0, size=600)
    chance = np.outer(activity / activity.mean(), popularity / popularity.mean()) * 0.03
    user, item = np.nonzero(rng.random(chance.shape) < chance)
    liking = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 900)) * 0.5 + rng.normal(size=900) * 0.4
    rating = np.clip(np.round(3.3 + liking[user, item] + rng.normal(size=len(user)) * 0.8), 1, 5)
    return Split.of(user, item, rating)


@pytest.mark.parametrize("data", [coat, long_tail, pytest.param(movielens_1m, marks=pytest.mark.long)])
@pytest.mark.parametrize("preset", [DeconfoundedMF, DeconfoundedMF.forCounts])
def test_lists_are_of_rated_items(
    data: Callable[[Path], Split], preset: Callable[[], DeconfoundedMF], data_folder: Path
) -> None:
    split = data(data_folder)
    lists, ratings = fitted(split, preset()), split.seen.sum(axis=0)
    # In the long tail half of the items have so few ratings.
    assert (ratings[lists] < FEW).mean() < (0.05 if data is long_tail else 0.01)
    assert ndcg(split, lists) > ndcg(split, lists_of(split, np.broadcast_to(ratings, split.seen.shape))) / 5


def test_one_lucky_rating_does_not_lead_the_lists(data_folder: Path) -> None:
    """With priors by count a bias keeps the same share of its deviation after one rating as after a hundred."""
    ratings = pd.read_csv(data_folder.parent / "cases" / CASE)
    split = Split.of(ratings.user.to_numpy(), ratings.item.to_numpy(), ratings.rating.to_numpy(), held_out_share=0.0)
    lucky = np.flatnonzero(split.seen.sum(axis=0) == 1)
    assert len(lucky) == 1
    assert (fitted(split, DeconfoundedMF())[:, 0] == lucky[0]).mean() < 0.5
