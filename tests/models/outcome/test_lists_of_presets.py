"""The lists that each preset makes: of things that people have rated, not of single lucky ratings."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from dcrec_spark import DeconfoundedMF, MetricSettings, PoissonFactorization
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import Ratings, fit_exposure, fit_outcome
from dcrec_spark.local.lists import ListPlaces, judge, rank_popular, rank_unseen
from tests.reference.poisson import Array

N = 10
CASE = "one-lucky-rating.csv"


class Split(NamedTuple):
    train: Ratings
    held_out: dict[str, Array]

    @classmethod
    def of(cls, user: Array, item: Array, rating: Array, held_out_share: float = 0.2) -> "Split":
        is_test = np.random.default_rng(0).random(len(user)) < held_out_share
        users, items = np.unique(user), np.unique(item)
        keys = [keys_of([str(each) for each in ids]) for ids in (users, items)]
        places = np.searchsorted(users, user), np.searchsorted(items, item), rating.astype(np.float64)
        held_out = dict(zip(("user", "item", "rating"), (column[is_test] for column in places), strict=True))
        return cls(Ratings(*(column[~is_test] for column in places), *keys), held_out)

    def lists_of(self, estimator: DeconfoundedMF) -> ListPlaces:
        exposure = fit_exposure(self.train, PoissonFactorization(rank=estimator.getExposureRank()))
        return rank_unseen(fit_outcome(self.train, estimator, exposure), self.train, N)


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
    own, popular = (
        judge(lists, split.held_out, split.train, MetricSettings((N,), replications=0)).as_dict()
        for lists in (split.lists_of(preset()), rank_popular(split.train, N))
    )
    # In the long tail half of the items have fewer than three ratings.
    assert own["catalogue_rarest_share@10"] < (0.05 if data is long_tail else 0.01)
    assert own["catalogue_ndcg@10"] > popular["catalogue_ndcg@10"] / 5


def test_one_lucky_rating_does_not_lead_the_lists(data_folder: Path) -> None:
    """With priors by count a bias keeps the same share of its deviation after one rating as after a hundred."""
    ratings = pd.read_csv(data_folder.parent / "cases" / CASE)
    split = Split.of(ratings.user.to_numpy(), ratings.item.to_numpy(), ratings.rating.to_numpy(), held_out_share=0.0)
    (lucky,) = np.flatnonzero(np.bincount(split.train.item) == 1)
    lists = split.lists_of(DeconfoundedMF())
    assert (lists.item[lists.rank == 1] == lucky).mean() < 0.5
