"""make bench: ours against its peers; see benchmarks/results.

python -m benchmarks.run                         everything (under an hour on 2 cores)
python -m benchmarks.run --only whole-fits-1m    one of them
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pandas as pd
from pyspark.sql import functions as F

from benchmarks import data, memory, nightly, plots, stage1
from benchmarks.measure import RESULTS, Seconds, alternate, clock, clock_fit, clock_rows, load, versions
from benchmarks.peers import cmfrec, implicit, mllib, mllib_fitted
from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization

RANK, SWEEPS, ROUNDS = 50, 10, 3
PRECISIONS = ("float32", "float64")  # the default, which MLlib's factors have too, and double precision
LARGE = (70_000, 10_000)
# The paper's deconfounded model, without what our defaults add to a sweep.
ALONE: dict[str, Any] = {"confounder": "reconstruction", "confounderLink": "identity"}
PLAIN: dict[str, Any] = {**ALONE, "fitBiases": False, "confounderWeight": "user", "leaveOneOut": False}
Benchmark = Callable[[int], dict[str, Any]]
BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(function: Benchmark) -> Benchmark:
    """Offer a benchmark by its name: whole_fits_1m -> whole-fits-1m."""
    BENCHMARKS[function.__name__.replace("_", "-")] = function
    return function


def drawn(ratings: int) -> Path:
    """Synthetic ratings, 70,000 x 10,000."""
    return data.synthetic(*LARGE, ratings)


@benchmark
def whole_fits_100k(rounds: int) -> dict[str, Any]:
    """Ten sweeps of the classical model, MovieLens 100K, from the call to the factors, against MLlib and implicit."""
    return {"rank": (10, RANK)} | {f"rank {r}": _whole_fits(data.movielens_100k(), r, rounds) for r in (10, RANK)}


@benchmark
def whole_fits_1m(rounds: int) -> dict[str, Any]:
    """The same, MovieLens 1M."""
    return _whole_fits(data.movielens_1m(), RANK, rounds)


@benchmark
def whole_fits_10m(rounds: int) -> dict[str, Any]:
    """The same, 10M synthetic ratings, 70,000 x 10,000."""
    return _whole_fits(drawn(10_000_000), RANK, rounds)


def _whole_fits(path: Path, rank: int, rounds: int) -> dict[str, Any]:
    ratings, on_driver = load(path), pd.read_parquet(path)
    return alternate(
        rounds,
        {p: lambda p=p: _classical(ratings, rank, p) for p in PRECISIONS},
        {
            "MLlib": lambda: clock_fit(lambda: mllib(rank, SWEEPS).fit(ratings)),
            "implicit": lambda: implicit(on_driver, rank, SWEEPS),
        },
    )


def _classical(ratings: Any, rank: int, precision: str) -> Seconds:
    model = DeconfoundedMF.forCounts(rank=rank, maxIter=SWEEPS).setParams(
        adjustment="none", tol=0.0, precision=precision
    )
    return clock_fit(lambda: model.fit(ratings))


@benchmark
def cmfrec_100k(rounds: int) -> dict[str, Any]:
    """Ten sweeps of the classical model, MovieLens 100K, against implicit and cmfrec, all with two threads."""
    return _cmfrec(data.movielens_100k(), rounds)


@benchmark
def cmfrec_1m(rounds: int) -> dict[str, Any]:
    """The same, MovieLens 1M."""
    return _cmfrec(data.movielens_1m(), rounds)


def _cmfrec(path: Path, rounds: int) -> dict[str, Any]:
    ratings, on_driver = load(path), pd.read_parquet(path)
    return alternate(
        rounds,
        {p: lambda p=p: _classical(ratings, RANK, p) for p in PRECISIONS},
        {
            "implicit, Cholesky": lambda: implicit(on_driver, RANK, SWEEPS),
            "cmfrec, Cholesky": lambda: cmfrec(on_driver, RANK, SWEEPS, use_cg=False),
            "cmfrec, gradients": lambda: cmfrec(on_driver, RANK, SWEEPS, use_cg=True),
        },
    )


@benchmark
def explicit_100k(rounds: int) -> dict[str, Any]:
    """Ten sweeps of MLlib's explicit ALS and of the same loss by ours, MovieLens 100K, and the error held out."""
    return _explicit(data.movielens_100k(), rounds)


@benchmark
def explicit_1m(rounds: int) -> dict[str, Any]:
    """The same, MovieLens 1M."""
    return _explicit(data.movielens_1m(), rounds)


def _explicit(path: Path, rounds: int) -> dict[str, Any]:
    training, held_out = load(path).randomSplit([0.9, 0.1], seed=0)
    training.persist().count(), held_out.persist().count()
    loss = {"regByCount": True, "regParam": 0.1, "fitBiases": False, "fitIntercept": False}
    fits: dict[str, Any] = {
        "ours": DeconfoundedMF(outcome="probabilistic", adjustment="none", rank=RANK, maxIter=SWEEPS, tol=0.0, **loss),
        "MLlib": mllib(RANK, SWEEPS, implicitPrefs=False, regParam=0.1),
    }
    errors = {}
    for name, fit in fits.items():
        predicted = fit.fit(training).transform(held_out).dropna()
        squared = predicted.agg(F.avg((F.col("rating") - F.col("prediction")) ** 2)).first()[0]
        errors[name] = round(float(squared) ** 0.5, 4)
    clocked = {name: lambda fit=fit: clock_fit(lambda: fit.fit(training)) for name, fit in fits.items()}
    peer = {"MLlib": clocked.pop("MLlib")}
    return {"root_mean_square_held_out": errors, **alternate(rounds, clocked, peer)}


@benchmark
def both_stages_1m(rounds: int) -> dict[str, Any]:
    """Both stages until they converge, MovieLens 1M, against ten iterations of MLlib's implicit ALS."""
    ratings = load(data.movielens_1m())
    counted: dict[str, dict[str, int]] = {}

    def ours(precision: str) -> Seconds:
        exposure = PoissonFactorization(rank=RANK, precision=precision)
        estimator = _deconfounded(exposure, 100).setParams(tol=1e-4, precision=precision)

        def fit() -> DeconfoundedMFModel:
            model = estimator.fit(ratings)
            iterations, sweeps = len(model.exposureModel.elboHistory), len(model.objectiveHistory)
            counted[precision] = {"iterations of exposure": iterations, "iterations of outcome": sweeps}
            return model

        return clock_fit(fit)

    found = alternate(
        rounds,
        {precision: lambda precision=precision: ours(precision) for precision in PRECISIONS},
        {"MLlib": lambda: clock_fit(lambda: mllib(RANK, SWEEPS).fit(ratings))},
    )
    return {**found, **counted}


@benchmark
def extended_sweep_1m(rounds: int) -> dict[str, Any]:
    """Sweep of the default model, with and without the exposure's factors, MovieLens 1M, against the paper's model."""
    ratings = load(data.movielens_1m())
    exposure = PoissonFactorization(rank=5, maxIter=10, tol=0.0).fit(ratings)

    def sweep(**settings: Any) -> Seconds:
        """By the difference of two fits, so that what a fit does once does not count."""
        short, long = (
            clock_fit(
                lambda n=n: DeconfoundedMF(rank=RANK, tol=0.0, exposureModel=exposure, maxIter=n, **settings).fit(
                    ratings
                )
            )
            for n in (2, 10)
        )
        return (long - short) / 8

    models = {"factors": sweep, "reconstruction alone": lambda: sweep(**ALONE)}
    return alternate(rounds, models, {"plain": lambda: sweep(**PLAIN)})


@benchmark
def exposure_whole_100k(rounds: int) -> dict[str, Any]:
    """Stage 1 of MovieLens 100K to within 1e-4 of its end, against hpfrec and poismf, to the same likelihood."""
    return stage1.against_peers(load(data.movielens_100k()), RANK, rounds)


@benchmark
def exposure_whole_1m(rounds: int) -> dict[str, Any]:
    """Stage 1 of MovieLens 1M to within 1e-4 of its end, against hpfrec and poismf, to the same likelihood."""
    return stage1.against_peers(load(data.movielens_1m()), RANK, rounds)


@benchmark
def exposure_whole_10m(rounds: int) -> dict[str, Any]:
    """Stage 1 of 10M synthetic ratings, 70,000 x 10,000: one fit each, whatever the rounds."""
    return stage1.against_hpfrec_once(load(drawn(10_000_000)), RANK, tried=(10, 20, 40), most=400)


@benchmark
def fold_in_1m(rounds: int) -> dict[str, Any]:
    """Fold-in of five of six users of MovieLens 1M, against a sweep of stage 2 over as many ratings."""
    ratings = load(data.movielens_1m())
    is_old = F.pmod(F.xxhash64("user"), F.lit(6)) == 0
    newcomers = ratings.where(~is_old).persist()
    sizes = {"users": newcomers.select("user").distinct().count(), "ratings": newcomers.count()}
    model = _fitted(ratings.where(is_old))
    exposure = PoissonFactorization(rank=RANK, maxIter=2, tol=0.0).fit(newcomers)

    def fold_in() -> Seconds:
        folded = []
        seconds = clock(lambda: folded.append(model.foldInUsers(newcomers)))
        folded[0].unpersist()
        return seconds

    def sweep() -> Seconds:
        def fit(sweeps: int) -> Seconds:
            return clock_fit(lambda: _deconfounded(exposure, sweeps).fit(newcomers))

        return (fit(10) - fit(2)) / 8

    return sizes | alternate(rounds, {"fold-in": fold_in}, {"sweep": sweep})


def _fitted(ratings: Any) -> DeconfoundedMFModel:
    """A model after two sweeps: the work of a ranking or a fold-in does not depend on more."""
    exposure = PoissonFactorization(rank=RANK, maxIter=10, tol=0.0)
    return _deconfounded(exposure, 2).fit(ratings)


def _deconfounded(exposure: Any, sweeps: int) -> DeconfoundedMF:
    estimator = DeconfoundedMF.forCounts(rank=RANK, maxIter=sweeps)
    return estimator.setParams(exposureModel=exposure, tol=0.0, **PLAIN)


@benchmark
def top_n_1m(rounds: int) -> dict[str, Any]:
    """The ten best items of all users of MovieLens 1M, seen ones left out, against MLlib's, which leaves none out."""
    return _top_n(data.movielens_1m(), rounds)


@benchmark
def top_n_10m(rounds: int) -> dict[str, Any]:
    """The same, 10M synthetic ratings, 70,000 x 10,000."""
    return _top_n(drawn(10_000_000), rounds)


def _top_n(path: Path, rounds: int) -> dict[str, Any]:
    ratings = load(path)
    model, peer = _fitted(ratings), mllib_fitted(ratings, RANK)
    return alternate(
        rounds,
        {
            "seen left out": lambda: clock_rows(lambda: model.recommendForAllUsers(10, ratings)),
            "all": lambda: clock_rows(lambda: model.recommendForAllUsers(10)),
        },
        {"MLlib": lambda: clock_rows(lambda: peer.recommendForAllUsers(10))},
    )


@benchmark
def night_1m(rounds: int) -> dict[str, Any]:
    """A nightly run on MovieLens 1M, cold, from the command to the tables, against a script with MLlib's ALS."""
    ratings = data.DATA / "ml-1m" / "ratings.dat"
    return alternate(
        rounds,
        {name: lambda name=name: nightly.ours(ratings, RANK, name) for name in ("none", "deconfounded")},
        {"script": lambda: nightly.mllib(ratings, RANK)},
    )


@benchmark
def driver_memory(rounds: int) -> dict[str, Any]:
    """Peak memory of the driver (MB) at 1M and 10M ratings of 70,000 x 10,000, and at 100M of 700,000 x 50,000."""
    shapes = {"at_1m": (70_000, 10_000, 10**6), "at_10m": (70_000, 10_000, 10**7), "at_100m": (700_000, 50_000, 10**8)}
    return {name: memory.measure(data.synthetic(*shape)) for name, shape in shapes.items()}


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="One benchmark; can be repeated.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="Counted rounds of ours and the peer.")
def main(only: tuple[str, ...], rounds: int) -> None:
    RESULTS.mkdir(exist_ok=True)
    for name in only or BENCHMARKS:
        result = {
            "what": BENCHMARKS[name].__doc__,
            "rank": RANK,
            **BENCHMARKS[name](rounds),
            **versions(f'make bench ARGS="--only {name}{"" if rounds == ROUNDS else f" --rounds {rounds}"}"'),
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        print(name, json.dumps({k: v for k, v in result.items() if k not in ("what", "versions")}), flush=True)
    plots.draw()


if __name__ == "__main__":
    main()
