"""The studies' data sets in memory, each by name and seed: ratings to fit, ratings to choose by, and a test.

| | training and validation | test |
| --- | --- | --- |
| coat | what users chose to rate, the same for all seeds | items drawn at random, without those in training |
| ml-100k, ml-1m | four fifths of the ratings | the other fifth, which users chose |
| fair-KIND, tail-KIND, paper | simulated ratings | random pairs, withheld from the ratings |

A random fifth of what is no test is the validation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

import numpy as np

from dcrec_spark.engine.cells import Array
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import NO_FEATURES, Features, Ratings
from studies.fair_simulation import Confounding, FairSimulation
from studies.paper_simulation import Simulation, draw_block, draw_items, expected_rating

HELD_OUT = 0.2
_RATING = ("user", "item", "rating")


@dataclass(frozen=True)
class DataSet:
    """A data set and seed.

    whole : ratings that are no test. test : its ``user``, ``item``, ``rating``. features : of users and items.
    expected : (U, I) expected ratings where the truth is known.
    """

    seed: int
    whole: Ratings
    test: Mapping[str, Array]
    features: Features = NO_FEATURES
    expected: Array | None = None

    @cached_property
    def _is_held_out(self) -> Array:
        return np.asarray(np.random.default_rng((self.seed, 1)).random(len(self.whole.rating)) < HELD_OUT)

    @property
    def train(self) -> Ratings:
        """What settings are tried on."""
        return self.whole.only(~self._is_held_out)

    @property
    def validation(self) -> Ratings:
        """What settings are chosen by."""
        return self.whole.only(self._is_held_out)

    @cached_property
    def seen(self) -> Array:
        """(U, I) pairs that lists leave out."""
        seen = np.zeros((len(self.whole.user_key), len(self.whole.item_key)), np.bool_)
        seen[self.whole.user, self.whole.item] = True
        return seen


def coat(folder: Path, seed: int) -> DataSet:
    """Read Coat, with the features that it has of users and items."""
    files = folder / "coat"
    train, test = (np.loadtxt(files / f"{name}.ascii") for name in ("train", "test"))
    of_users, of_items = (
        np.loadtxt(files / "user_item_features" / f"{side}_features.ascii", ndmin=2) for side in ("user", "item")
    )
    unseen = np.where(train > 0, 0, test)
    return DataSet(
        seed, _ratings(_pairs(train > 0, train), train.shape), _pairs(unseen > 0, unseen), (of_users, of_items)
    )


def movielens(name: str, separator: str, folder: Path, seed: int) -> DataSet:
    """Read MovieLens, and hold out a random fifth."""
    lines = (folder / name).read_text(encoding="latin-1").split("\n")
    user, item, rating = np.array([line.split(separator)[:3] for line in lines if line], np.int64).T
    users, items = np.unique(user), np.unique(item)
    pairs = {"user": np.searchsorted(users, user), "item": np.searchsorted(items, item), "rating": rating * 1.0}
    is_test = np.random.default_rng(seed).random(len(user)) < HELD_OUT
    fitted, test = ({name: of[chosen] for name, of in pairs.items()} for chosen in (~is_test, is_test))
    return DataSet(seed, _ratings(fitted, (len(users), len(items))), test)


def fair(kind: Confounding, long_tail: bool, folder: Path, seed: int) -> DataSet:
    """Draw the fair simulation. long_tail : 700 x 900, 3 % rated, a third of the items with three ratings or fewer."""
    tail = {"n_users": 700, "n_items": 900, "rated": 0.03, "popularity": 1.6} if long_tail else {}
    drawn = FairSimulation(kind, seed=seed, **tail)  # type: ignore[arg-type]
    size = drawn.n_users, drawn.n_items
    expected = drawn.expected(*np.indices(size).reshape(2, -1)).reshape(size)
    return DataSet(seed, _ratings(drawn.ratings, size), drawn.test, expected=expected)


def paper(folder: Path, seed: int) -> DataSet:
    """Draw the paper's simulation, 600 x 600, read so that 7 % are rated."""
    settings = Simulation(n_users=600, n_items=600, test_pairs="withheld", test_pairs_per_user=40, seed=seed)
    block = draw_block(settings, np.arange(settings.n_users), draw_items(settings))
    ratings, test = (_pairs(chosen, block.rating) for chosen in (block.exposed & ~block.in_test, block.in_test))
    return DataSet(seed, _ratings(ratings, block.rating.shape), test, expected=expected_rating(block.outcome_rate))


def _pairs(chosen: Array, rating: Array) -> dict[str, Array]:
    user, item = np.nonzero(chosen)
    return {"user": user, "item": item, "rating": rating[user, item].astype(np.float64)}


def _ratings(pairs: Mapping[str, Array], size: tuple[int, ...]) -> Ratings:
    return Ratings(*(pairs[name] for name in _RATING), *(keys_of([str(at) for at in range(n)]) for n in size))


TAILS: tuple[Confounding, ...] = ("raises", "lowers", "none")
DATA: dict[str, Callable[[Path, int], DataSet]] = {
    "coat": coat,
    **{f"fair-{kind}": partial(fair, kind, False) for kind in get_args(Confounding)},
    **{f"tail-{kind}": partial(fair, kind, True) for kind in TAILS},
    "paper": paper,
    "ml-100k": partial(movielens, "ml-100k/u.data", "\t"),
    "ml-1m": partial(movielens, "ml-1m/ratings.dat", "::"),
}
