"""The dial of lists on MovieLens 100K: what people take up of them, and how they like it.

    python -m studies.dial ml-100k/u.data docs/img/dial.svg

A random fifth of the ratings is held out, with several seeds. Each model ranks the whole catalogue for every user, by
exposureWeight from 0 to 1. Settings other than defaults and presets were chosen on a further fifth of the training.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure as Picture

from dcrec_spark import DeconfoundedMF, MetricSettings, PoissonFactorization
from dcrec_spark.engine.cells import Array
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import Ratings, fit_exposure, fit_outcome
from dcrec_spark.local.lists import ListPlaces, judge, rank_popular, rank_unseen
from dcrec_spark.plots.panels import style
from studies.drawing import save_drawing

SEEDS = range(4)
WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0)
N = 10
_NOTES = ((5, 5), (-2, -13))  # points from a dot to its weight
HELD_OUT = 0.2
MEASURES = ("catalogue_ndcg@10", "catalogue_hit_rating@10", "catalogue_recall@10", "catalogue_rarest_share@10")
MODELS: dict[str, Callable[[], DeconfoundedMF]] = {
    "DeconfoundedMF()": DeconfoundedMF,
    "all pairs": lambda: DeconfoundedMF(
        outcome="weighted", alpha=0.0, unobservedWeight=0.1, rank=20, regParam=10.0, exposureRank=20
    ),
    "forCounts()": DeconfoundedMF.forCounts,
}


class CurvePoint(NamedTuple):
    """Lists of one model and seed. weight : the dial, None for what has none. values : of MEASURES."""

    model: str
    weight: float | None
    seed: int
    values: tuple[float, ...]


def split(path: Path, seed: int) -> tuple[Ratings, dict[str, Array]]:
    """Draw training and test ratings."""
    user, item, rating = np.loadtxt(path, dtype=np.int64)[:, :3].T
    users, items = np.unique(user), np.unique(item)
    places = {"user": np.searchsorted(users, user), "item": np.searchsorted(items, item), "rating": rating * 1.0}
    is_test = np.random.default_rng(seed).random(len(user)) < HELD_OUT
    keys = [keys_of([str(each) for each in ids]) for ids in (users, items)]
    return Ratings(*(of[~is_test] for of in places.values()), *keys), {k: of[is_test] for k, of in places.items()}


def measure(path: Path, seed: int) -> Iterator[CurvePoint]:
    """Fit each model once, and judge its lists by each weight."""
    train, test = split(path, seed)

    def point(model: str, weight: float | None, places: ListPlaces) -> CurvePoint:
        values = judge(places, test, train, MetricSettings((N,), replications=0)).as_dict()
        return CurvePoint(model, weight, seed, tuple(values[name] for name in MEASURES))

    yield point("popularity", None, rank_popular(train, N))
    if (places := rank_by_implicit(train)) is not None:
        yield point("implicit", None, places)
    for name, make in MODELS.items():
        estimator = make()
        exposure = fit_exposure(train, PoissonFactorization(rank=estimator.getExposureRank()))
        model = fit_outcome(train, estimator, exposure)
        for weight in WEIGHTS:
            yield point(name, weight, rank_unseen(model, train, N, weight))


def rank_by_implicit(train: Ratings) -> ListPlaces | None:
    """Rank by implicit's ALS with 32 factors, regularization 10 and alpha 1. None where it is not installed."""
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        return None
    from scipy.sparse import csr_matrix

    shape = len(train.user_key), len(train.item_key)
    seen = csr_matrix((train.rating, (train.user, train.item)), shape)
    als = AlternatingLeastSquares(factors=32, regularization=10.0, alpha=1.0, random_state=0, use_gpu=False)
    als.fit(seen, show_progress=False)
    item, score = als.recommend(np.arange(shape[0]), seen, N, filter_already_liked_items=True)
    user, rank = np.repeat(np.arange(shape[0]), N), np.tile(np.arange(1, N + 1), shape[0])
    return ListPlaces(user, rank, item.ravel().astype(np.int64), score.ravel())


def means(points: list[CurvePoint]) -> dict[tuple[str, float | None], Array]:
    """Average the measures over the seeds."""
    keys = dict.fromkeys((point.model, point.weight) for point in points)
    return {key: np.mean([p.values for p in points if (p.model, p.weight) == key], axis=0) for key in keys}


def draw(of: dict[tuple[str, float | None], Array]) -> Picture:
    """Draw NDCG against the mean rating of the hits: a line for each model, a dot for what has no dial."""
    figure = Picture(figsize=(7.0, 4.2), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots()
    for number, model in enumerate(dict.fromkeys(name for name, _ in of)):
        weights = [weight for name, weight in of if name == model]
        ndcg, liked, *_ = np.array([of[model, weight] for weight in weights]).T
        axes.plot(liked, ndcg, "o-", label=f"{model}, exposure_weight from 0 to 1" if len(weights) > 1 else model)
        for weight, x, y in zip(weights, liked, ndcg, strict=True):
            if weight in (0.0, 1.0) or model == "DeconfoundedMF()":
                axes.annotate(f"{weight:g}", (x, y), textcoords="offset points", xytext=_NOTES[number % 2], fontsize=8)
    axes.set_xlabel("how users like what they take up (mean rating of the hits)")
    axes.set_ylabel("how much they take up (NDCG@10)")
    axes.legend(frameon=False, fontsize=8)
    style(axes)
    return figure


@click.command()
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.argument("picture", type=click.Path(path_type=Path))
def main(data: Path, picture: Path) -> None:
    """Measure, print the table of the page, and draw the picture."""
    of = means([point for seed in SEEDS for point in measure(data, seed)])
    for (model, weight), values in of.items():
        dial = "" if weight is None else f"{weight:g}"
        click.echo(f"| {model} | {dial} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    save_drawing(draw(of), picture)


if __name__ == "__main__":
    main()
