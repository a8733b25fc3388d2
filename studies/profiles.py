"""How much of each study is run: sizes that end on a machine of two cores, and what they leave out."""

from dataclasses import dataclass, field

from studies.paper_simulation import Reading
from studies.rows import Budget


@dataclass(frozen=True)
class OfData:
    """A comparison on one data set: so many seeds (of splits, starts and draws), each tuned with ``budget``."""

    seeds: int
    budget: Budget
    placebos: bool = False
    with_als: bool = True


@dataclass(frozen=True)
class OfSimulation:
    """A sweep over simulated worlds of ``size`` users and items: ``runs`` worlds for each point.

    ranks : of the outcome models, each compared for itself on the world where both sweeps meet. spreads : in place of
    the 0.3, on that world; the larger the rate, the fewer pairs are rated.
    """

    reading: Reading
    size: int
    n_factors: int
    runs: int
    budget: Budget
    preference: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    outcome: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    test_pairs_per_user: int = 40
    ranks: tuple[int, ...] = ()
    spreads: tuple[float, ...] = ()


@dataclass(frozen=True)
class Profile:
    """What is run. cut : what the paper has and this does not, in words that go beside the results."""

    data: dict[str, OfData]
    simulations: dict[str, OfSimulation]
    sweeps: tuple[int, ...] = (1, 2, 5, 50)
    cut: list[str] = field(default_factory=list)


_POINTS = (0.0, 0.3, 0.6, 1.0), (0.0, 1.0, 3.0, 5.0)
_OUTCOME_RANKS = (1, 2, 5, 10, 20)
# From the dense reading to the sparse one, which is a rate of 3.3.
_SPREADS = (0.3, 0.6, 1.0, 1.7, 3.3)
_PLAIN = Budget(4, plain=True)

PROFILES = {
    "quick": Profile(
        data={"coat": OfData(1, Budget(draws=4, most_rank=20), placebos=True)},
        simulations={
            "dense": OfSimulation("rate", 120, 10, 1, Budget(2, 5, 20), (0.0, 0.6, 1.0), (0.0, 3.0)),
            "sparse": OfSimulation("scale", 120, 10, 1, Budget(2, 5, 20), (0.0, 0.6, 1.0), (0.0, 3.0)),
            "between": OfSimulation("rate", 120, 10, 1, Budget(2, 5, 20), (), (), spreads=(0.6, 1.7)),
            "plain-5": OfSimulation("rate", 120, 5, 1, Budget(4, max_iter=20, plain=True), (), (), spreads=(1.0,)),
        },
        cut=[
            "One seed, 4 draws of settings for each row, ranks up to 20; simulations of 120 x 120 instead of "
            "5,000 x 5,000, one run instead of 10, a few points of each sweep; no MovieLens, no new users."
        ],
    ),
    "full": Profile(
        data={
            "coat": OfData(4, Budget(draws=12), placebos=True),
            "coat-plain": OfData(4, _PLAIN, with_als=False),
            "coat-new-users": OfData(4, Budget(draws=8, most_rank=50)),
            "movielens-100k": OfData(2, Budget(draws=6, most_rank=50)),
            "movielens-1m": OfData(1, Budget(draws=2, most_rank=10, max_iter=20), with_als=False),
        },
        simulations={
            "dense": OfSimulation("rate", 250, 10, 2, Budget(3, 10, 30), *_POINTS, ranks=_OUTCOME_RANKS),
            "sparse": OfSimulation("scale", 250, 10, 2, Budget(3, 10, 30), *_POINTS, ranks=_OUTCOME_RANKS),
            "between": OfSimulation("rate", 250, 10, 2, Budget(6, 20), (), (), spreads=_SPREADS),
            "plain-10": OfSimulation("rate", 250, 10, 3, _PLAIN, (), (), spreads=_SPREADS),
            "plain-5": OfSimulation("rate", 250, 5, 3, _PLAIN, (), (), spreads=_SPREADS),
        },
        cut=[
            "Simulations are of 250 x 250 users and items instead of 5,000 x 5,000, 2 runs instead of 10; every row of "
            "them chooses among 3 draws of settings, of ranks up to 10 (between the readings 6, ranks up to 20).",
            "4 seeds of Coat, 2 of MovieLens 100K (6 draws, ranks up to 50), one of MovieLens 1M (2 draws, ranks up to "
            "10, at most 20 sweeps; without MLlib's ALS). Coat's new users: 8 draws, ranks up to 50.",
            "Settings are drawn from the grid, as many for each row (12 on Coat), not searched whole. Placebos stand "
            "beside the rows of Coat and of the worlds between the readings alone.",
        ],
    ),
}
# For those who hold it.
YAHOO = dict.fromkeys(("yahoo-r3", "yahoo-r3-new-users"), OfData(3, Budget(draws=4, most_rank=20)))
