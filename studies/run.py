"""The study: every row on every data set, tuned by validation, its errors and its lists; and the page of it.

    python -m studies.run --data folder --output docs/studies [--only coat --only fair] [--seeds 3] [--work archive]

A unit is a data set and a seed. It is recorded in the archive as it ends, so that the command continues where it was
stopped. The units of the published page are in studies/results/study.zip.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import click
import numpy as np
import structlog
from threadpoolctl import threadpool_limits

from dcrec_spark import MetricSettings
from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.metrics import evaluate_arrays
from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.kernels.solvers import least_squares_on_simplex
from dcrec_spark.local.fits import Ratings
from dcrec_spark.local.lists import ListPlaces, judge
from studies.data import DATA, DataSet
from studies.fair_simulation import value_of
from studies.page import write_page
from studies.rows import (
    BASELINE,
    BLEND,
    CMFREC,
    DEFAULT,
    HALF_PLACEBO,
    IMPLICIT,
    MLLIB_IMPLICIT,
    MODELS,
    PLACEBOS,
    POPULARITY,
    RANKED_ONLY,
    WITH_FEATURES,
    Fits,
    Settings,
    draw,
    installed_peers,
)

Cell = dict[str, Any]
N = 10
RESULTS = Path(__file__).parent / "results" / "study.zip"
OF_LISTS = ("catalogue_ndcg@10", "catalogue_hit_rating@10", "catalogue_rarest_share@10", "catalogue_largest_share@10")
_log = structlog.get_logger()


@dataclass(frozen=True)
class Plan:
    """How much of a data set is run: seeds, settings that each row tries, and rows that are too slow for it.

    With one setting nothing is tuned: every row has its defaults, and there is no blend.
    """

    seeds: int = 5
    draws: int = 6
    without: tuple[str, ...] = ()


# It is tried by MLlib itself, so it takes most of the time: in some first seeds alone.
_SLOW = (MLLIB_IMPLICIT,)
PLANS = {name: Plan(without=() if name.startswith("tail") else _SLOW) for name in DATA} | {
    "ml-100k": Plan(3),
    "ml-1m": Plan(1, 1, (*MODELS.keys() - {BASELINE, DEFAULT}, *_SLOW, CMFREC, IMPLICIT)),
}


def run_unit(data: DataSet, plan: Plan) -> Cell:
    """Tune every row, fit it to all ratings that are no test, and measure it: row -> measures, settings, seconds."""
    fits = Fits(data)
    found: Cell = {}
    without = (*plan.without, *(_SLOW if data.seed else ()))
    every = [POPULARITY, *MODELS, *(WITH_FEATURES if data.features[0] is not None else ()), *installed_peers()]
    rows = [row for row in every if row not in without]
    validated: dict[str, Array] = {}
    for row in rows:
        start, settings = time.perf_counter(), next(draw(row, 1, data.seed))
        if row == HALF_PLACEBO:
            settings = found[DEFAULT]["settings"]
        elif plan.draws > 1:
            settings, validated[row] = choose(fits, row, plan.draws)
        found[row] = {"settings": settings, "seconds": round(time.perf_counter() - start, 1)}
    weights = _blend_weights({row: of for row, of in validated.items() if _is_member(row)}, data.validation.rating)
    blended = np.zeros(data.seen.shape)
    for row in rows:
        scores = fits.score(row, data.whole, found[row]["settings"])
        found[row] |= measure(scores, data, row not in RANKED_ONLY)
        blended += weights.get(row, 0.0) * scores
    if weights:
        found[BLEND] = {"settings": weights, **measure(blended, data, True)}
    return found


def _is_member(row: str) -> bool:
    return row in {**MODELS, **WITH_FEATURES} and row not in PLACEBOS


def _blend_weights(predicted: Mapping[str, Array], rating: Array) -> dict[str, float]:
    """Return the weights above 0 of rows, by their predictions of the validation. Of no rows there are none."""
    if not predicted:
        return {}
    columns = np.column_stack([*predicted.values(), rating])
    weights = least_squares_on_simplex(columns.T @ columns)
    return {row: float(weight) for row, weight in zip(predicted, weights, strict=True) if weight > 0}


def choose(fits: Fits, row: str, draws: int) -> tuple[Settings, Array]:
    """Return the settings that are best on validation, and their predictions there.

    By the squared error, and rows that only rank by NDCG@10 of their lists.
    """
    train, held_out = fits.data.train, fits.data.validation
    best: tuple[float, Settings, Array] | None = None
    for settings in draw(row, draws, fits.data.seed):
        try:
            scores = fits.score(row, train, settings, is_trial=True)
        except FitError as error:  # settings with which no fit is possible are no choice
            _log.warning("a draw has failed", row=row, error=str(error))
            continue
        predicted = scores[held_out.user, held_out.item]
        loss = float(np.mean((predicted - held_out.rating) ** 2))
        if row in RANKED_ONLY:
            pairs = {"user": held_out.user, "item": held_out.item, "rating": held_out.rating}
            loss = -_of_lists(rank(scores, _seen(train), N), pairs, train)[OF_LISTS[0]]
        if best is None or loss < best[0]:
            best = loss, settings, predicted
    if best is None:
        raise FitError(f"{row}: none of {draws} settings can be fitted")
    return best[1:]


def measure(scores: Array, data: DataSet, predicts: bool) -> dict[str, float]:
    """Measure scores of all pairs by the test, and their lists by it and by the truth."""
    test = data.test
    keys = {"user_key": data.whole.user_key[test["user"]], "item_key": data.whole.item_key[test["item"]]}
    pairs = {**keys, "item": test["item"], "rating": test["rating"]}
    found = evaluate_arrays(pairs, {"it": scores[test["user"], test["item"]]}, MetricSettings(replications=0)).as_dict()
    measures = {"ndcg": found["ndcg"]} | ({"mse": found["mse"]} if predicts else {})
    places = rank(scores, data.seen, N)
    measures |= _of_lists(places, test, data.whole)
    if data.expected is not None:
        measures |= value_of(places, data.expected, data.seen, N)._asdict()
    return {name: round(float(value), 5) for name, value in measures.items()}


def rank(scores: Array, seen: Array, n: int) -> ListPlaces:
    """Rank each user's n best items that are not seen there, equal scores by the item. scores, seen : (U, I)."""
    masked = np.where(seen, -np.inf, scores)
    best = np.argsort(-masked, axis=1, kind="stable")[:, :n]
    user, place = np.indices(best.shape).reshape(2, -1)
    return ListPlaces(user, place + 1, best.ravel(), masked[user, best.ravel()])


def _seen(ratings: Ratings) -> Array:
    seen = np.zeros((len(ratings.user_key), len(ratings.item_key)), np.bool_)
    seen[ratings.user, ratings.item] = True
    return seen


def _of_lists(places: ListPlaces, test: Mapping[str, Array], fitted: Ratings) -> dict[str, float]:
    values = judge(places, test, fitted, MetricSettings((N,), replications=0)).as_dict()
    return {name: values[name] for name in OF_LISTS}


def read_cells(path: Path) -> dict[str, list[Cell]]:
    """Return the cells of an archive, by data set, then seed."""
    cells: dict[str, list[Cell]] = {}
    if path.exists():
        with ZipFile(path) as archive:
            there = set(archive.namelist())
            for name, plan in PLANS.items():
                files = [f for f in (f"{name}-{seed}.json" for seed in range(plan.seeds)) if f in there]
                if files:
                    cells[name] = [json.loads(archive.read(file)) for file in files]
    return cells


@click.command()
@click.option("--data", "folder", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of the page.")
@click.option("--work", default=RESULTS, type=click.Path(path_type=Path), help="Archive of the units.")
@click.option("--only", multiple=True, help="Beginning of the data sets' names; all without it.")
@click.option("--seeds", default=5, help="At most so many of each data set.")
def main(folder: Path, output: Path, work: Path, only: Sequence[str], seeds: int) -> None:
    """Run what is not done yet, the first seeds of all data sets first, and write the page of all that is there."""
    configure_logging(for_people=True)
    chosen = [name for name in DATA if not only or name.startswith(tuple(only))]
    if not chosen:
        raise click.BadParameter(f"found {only}, expected beginnings of {', '.join(DATA)}", param_hint="--only")
    units = [(name, seed) for seed in range(seeds) for name in chosen if seed < PLANS[name].seeds]
    work.parent.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        for name, seed in units:
            file = f"{name}-{seed}.json"
            if work.exists():
                with ZipFile(work) as archive:
                    if file in archive.namelist():
                        continue
            start = time.perf_counter()
            cell = run_unit(DATA[name](folder, seed), PLANS[name])
            with ZipFile(work, "a", ZIP_DEFLATED) as archive:
                archive.writestr(file, json.dumps(cell))
            _log.info("unit done", unit=file, seconds=round(time.perf_counter() - start))

    write_page(read_cells(work), output)


if __name__ == "__main__":
    main()
