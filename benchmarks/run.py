"""make bench: ours against its peers, evaluation, fold-in, top-N, memory; see benchmarks/results.

python -m benchmarks.run                     everything (under an hour on 2 cores)
python -m benchmarks.run --only stage2-1m    one of them
"""

import json
import platform
import resource
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import pandas as pd
from pyspark.sql import functions as F

from benchmarks import data, kernels, memory, nights, plots, pruning, solvers, speed, warm_start, whole_fit
from dcrec_spark.spark.session import build_session

RESULTS = Path(__file__).parent / "results"
RANK = 50
ROUNDS = 3
SOLVED = (50, 100, 200)
PRECISIONS = ("float64", "float32")  # the default, and what MLlib's factors have
LARGE = (70_000, 10_000)


def stage2_1m(rounds: int) -> dict[str, object]:
    """Sweep of stage 2, MovieLens 1M, against an iteration of MLlib's implicit ALS."""
    return _stage2(data.movielens_1m(), rounds, sweeps=8, short=2, long=8)


def stage2_10m(rounds: int) -> dict[str, object]:
    """The same with 10M synthetic ratings, 70,000 x 10,000."""
    return _stage2(data.synthetic(*LARGE, 10_000_000), rounds, sweeps=4, short=1, long=3)


def _stage2(path: Path, rounds: int, sweeps: int, short: int, long: int) -> dict[str, object]:
    spark = build_session("bench", "local[2]")
    ratings = speed.load(spark, path)
    return speed.alternate(
        rounds,
        {p: lambda p=p: speed.ours(ratings, RANK, 1, sweeps, p).per_iteration("outcome") for p in PRECISIONS},
        {"peer": lambda: speed.mllib(ratings, RANK, short, long, blocks=2)},
    )


def extended_sweep_1m(rounds: int) -> dict[str, object]:
    """Sweep of the extended least-squares model, MovieLens 1M, against one of the plain deconfounded model."""
    ratings = speed.load(build_session("bench", "local[2]"), data.movielens_1m())
    return speed.alternate(
        rounds,
        {"extended": lambda: speed.least_squares(ratings, RANK, 8, **speed.EXTENDED).per_iteration("outcome")},
        {"plain": lambda: speed.least_squares(ratings, RANK, 8).per_iteration("outcome")},
    )


def stage1_1m(rounds: int) -> dict[str, object]:
    """Iteration of stage 1, MovieLens 1M, against one of hpfrec with two threads."""
    spark = build_session("bench", "local[2]")
    ratings = speed.load(spark, data.movielens_1m())
    on_driver = ratings.toPandas()
    return speed.alternate(
        rounds,
        {p: lambda p=p: speed.ours(ratings, RANK, 10, 1, p).per_iteration("exposure") for p in PRECISIONS},
        {"peer": lambda: speed.hpfrec(on_driver, RANK, 5, 15, threads=2)},
    )


def warm_start_100k(rounds: int) -> dict[str, object]:
    """Iterations to the same tolerance from a cold and from a warm start, MovieLens 100K with 5 % new ratings."""
    return warm_start.measure(speed.load(build_session("bench", "local[2]"), data.movielens_100k()))


def evaluation_1m(rounds: int) -> dict[str, object]:
    """All metrics of predictions for MovieLens 1M, against a sweep of stage 2 on the same ratings (the peer)."""
    spark = build_session("bench", "local[2]")
    ratings = speed.load(spark, data.movielens_1m())
    predictions = ratings.withColumn("prediction", F.col("rating") + F.randn(0)).persist()
    predictions.count()
    return speed.alternate(
        rounds,
        {"evaluation": lambda: speed.evaluation(predictions)},
        {"sweep": lambda: speed.ours(ratings, RANK, 1, 5, "float64").per_iteration("outcome")},
    )


def fold_in_1m(rounds: int) -> dict[str, object]:
    """Fold-in of five of six users of MovieLens 1M, against a sweep of stage 2 over as many ratings."""
    spark = build_session("bench", "local[2]")
    ratings = speed.load(spark, data.movielens_1m())
    is_old = F.pmod(F.xxhash64("user"), F.lit(6)) == 0
    newcomers = ratings.where(~is_old).persist()
    model = speed.fitted(ratings.where(is_old), RANK)
    sizes = {"users": newcomers.select("user").distinct().count(), "ratings": newcomers.count()}
    return sizes | speed.alternate(
        rounds,
        {"fold-in": lambda: speed.fold_in(model, newcomers)},
        {"sweep": lambda: speed.ours(newcomers, RANK, 1, 5, "float64").per_iteration("outcome")},
    )


def top_n_1m(rounds: int) -> dict[str, object]:
    """The ten best items of all users of MovieLens 1M, seen ones left out, against MLlib's, which leaves none out."""
    return _top_n(data.movielens_1m(), rounds)


def top_n_10m(rounds: int) -> dict[str, object]:
    """The same, 10M synthetic ratings, 70,000 x 10,000."""
    return _top_n(data.synthetic(*LARGE, 10_000_000), rounds)


def _top_n(path: Path, rounds: int) -> dict[str, object]:
    ratings = speed.load(build_session("bench", "local[2]"), path)
    model, peer = speed.fitted(ratings, RANK), speed.mllib_fitted(ratings, RANK)
    return speed.alternate(
        rounds,
        {
            "seen left out": lambda: speed.written(lambda: model.recommendForAllUsers(10, ratings)),
            "all": lambda: speed.written(lambda: model.recommendForAllUsers(10)),
        },
        {"MLlib": lambda: speed.written(lambda: peer.recommendForAllUsers(10))},
    )


def pruning_1m(rounds: int) -> dict[str, object]:
    """The share of scores that lists of ten cannot do without by bounds of the others, MovieLens 1M, three models."""
    fits = {"iterations": pruning.ITERATIONS, "sweeps": pruning.SWEEPS}
    return {**fits, **pruning.measure(data.movielens_1m(), RANK, 20)}


def exposure_fit_100k(rounds: int) -> dict[str, object]:
    """Stage 1 to the end, MovieLens 100K: to within 1e-4 of the converged ELBO, plain and accelerated, by rank."""
    return _exposure_fit(data.movielens_100k(), most=1500)


def exposure_fit_1m(rounds: int) -> dict[str, object]:
    """The same, MovieLens 1M."""
    return _exposure_fit(data.movielens_1m(), most=300)


def _exposure_fit(path: Path, most: int) -> dict[str, object]:
    ratings = speed.load(build_session("bench", "local[2]"), path)
    fits = {f"rank {rank}": whole_fit.to_the_end(ratings, rank, most) for rank in (10, RANK)}
    return {"rank": (10, RANK), "most_iterations": most, "converged_below": whole_fit.CONVERGED, **fits}


def scales_of_factors(rounds: int) -> dict[str, object]:
    """ELBO of stage 1 after so many sweeps, with each factor's best scale before a sweep, and with that of ascent."""
    spark = build_session("bench", "local[2]")
    large, small = (speed.load(spark, path) for path in (data.movielens_1m(), data.movielens_100k()))
    return {
        "MovieLens 1M": whole_fit.scales(large, RANK),
        "MovieLens 100K": whole_fit.scales(small, RANK),
        "MovieLens 100K, rank 10": whole_fit.scales(small, 10),
    }


def exposure_whole_100k(rounds: int) -> dict[str, object]:
    """Stage 1 of MovieLens 100K to within 1e-4 of its end, against hpfrec and poismf, to the same likelihood."""
    ratings = speed.load(build_session("bench", "local[2]"), data.movielens_100k())
    return whole_fit.stage_1_against_peers(ratings, RANK, rounds, threads=2)


def exposure_whole_1m(rounds: int) -> dict[str, object]:
    """Stage 1 of MovieLens 1M to within 1e-4 of its end, against hpfrec and poismf, to the same likelihood."""
    ratings = speed.load(build_session("bench", "local[2]"), data.movielens_1m())
    return whole_fit.stage_1_against_peers(ratings, RANK, rounds, threads=2)


def exposure_whole_10m(rounds: int) -> dict[str, object]:
    """The same, 10M synthetic ratings, 70,000 x 10,000: one fit each, whatever the rounds."""
    ratings = speed.load(build_session("bench", "local[2]"), data.synthetic(*LARGE, 10_000_000))
    return whole_fit.stage_1_against_hpfrec_once(ratings, RANK, threads=2, tried=(10, 20, 40), most=400)


def whole_fits_100k(rounds: int) -> dict[str, object]:
    """Ten sweeps of the classical model, MovieLens 100K, from the call to the factors, against MLlib and implicit."""
    return {"rank": (10, RANK)} | {f"rank {r}": _whole_fits(data.movielens_100k(), r, rounds) for r in (10, RANK)}


def whole_fits_1m(rounds: int) -> dict[str, object]:
    """The same, MovieLens 1M."""
    return _whole_fits(data.movielens_1m(), RANK, rounds)


def whole_fits_10m(rounds: int) -> dict[str, object]:
    """The same, 10M synthetic ratings, 70,000 x 10,000; and how much of our seconds the kernels take."""
    path = data.synthetic(*LARGE, 10_000_000)
    found = _whole_fits(path, RANK, rounds)
    ratings = speed.load(build_session("bench", "local[2]"), path)
    shares = {p: whole_fit.kernel_share(lambda p=p: whole_fit.classical(ratings, RANK, 10, p)) for p in PRECISIONS}
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found | {"kernel_share": shares, "python_peak_mb": peak}


def _whole_fits(path: Path, rank: int, rounds: int) -> dict[str, object]:
    ratings, on_driver = speed.load(build_session("bench", "local[2]"), path), pd.read_parquet(path)
    return speed.alternate(
        rounds,
        {p: lambda p=p: whole_fit.classical(ratings, rank, 10, p) for p in PRECISIONS},
        {
            "MLlib": lambda: whole_fit.mllib(ratings, rank, 10),
            "implicit": lambda: whole_fit.implicit(on_driver, rank, 10, threads=2),
        },
    )


def explicit_100k(rounds: int) -> dict[str, object]:
    """Ten sweeps of MLlib's explicit ALS and of the same loss by ours, MovieLens 100K, and the error held out."""
    return _explicit(data.movielens_100k(), rounds)


def explicit_1m(rounds: int) -> dict[str, object]:
    """The same, MovieLens 1M."""
    return _explicit(data.movielens_1m(), rounds)


def _explicit(path: Path, rounds: int) -> dict[str, object]:
    training, held_out = speed.load(build_session("bench", "local[2]"), path).randomSplit([0.9, 0.1], seed=0)
    training.persist().count(), held_out.persist().count()
    fits = {"ours": whole_fit.explicit(RANK, 10), "MLlib": whole_fit.explicit_mllib(RANK, 10)}
    errors = {name: whole_fit.root_mean_square(fit, training, held_out) for name, fit in fits.items()}
    found = speed.alternate(
        rounds,
        {"ours": lambda: whole_fit.clocked(fits["ours"], training)},
        {"MLlib": lambda: whole_fit.clocked(fits["MLlib"], training)},
    )
    return {"root_mean_square_held_out": errors, **found}


def cmfrec_100k(rounds: int) -> dict[str, object]:
    """Ten sweeps of the classical model, MovieLens 100K, against implicit and cmfrec, all with two threads."""
    return _cmfrec(data.movielens_100k(), rounds)


def cmfrec_1m(rounds: int) -> dict[str, object]:
    """The same, MovieLens 1M."""
    return _cmfrec(data.movielens_1m(), rounds)


def _cmfrec(path: Path, rounds: int) -> dict[str, object]:
    ratings, on_driver = speed.load(build_session("bench", "local[2]"), path), pd.read_parquet(path)
    return speed.alternate(
        rounds,
        {p: lambda p=p: whole_fit.classical(ratings, RANK, 10, p) for p in PRECISIONS},
        {
            "implicit, Cholesky": lambda: whole_fit.implicit(on_driver, RANK, 10, threads=2),
            "cmfrec, Cholesky": lambda: whole_fit.cmfrec(on_driver, RANK, 10, threads=2, use_cg=False),
            "cmfrec, gradients": lambda: whole_fit.cmfrec(on_driver, RANK, 10, threads=2, use_cg=True),
        },
    )


def solvers_1m(rounds: int) -> dict[str, object]:
    """Five sweeps of the classical model, MovieLens 1M, by Cholesky's method and conjugate gradients; CPU seconds."""
    return {"rank": SOLVED, "sweeps": 5} | solvers.measure(data.movielens_1m(), SOLVED, sweeps=5)


def both_stages_1m(rounds: int) -> dict[str, object]:
    """Both stages until they settle, MovieLens 1M, against ten iterations of MLlib's implicit ALS."""
    ratings = speed.load(build_session("bench", "local[2]"), data.movielens_1m())
    counted: dict[str, dict[str, int]] = {}

    def ours(precision: str) -> speed.Seconds:
        seconds, counted[precision] = whole_fit.both_stages(ratings, RANK, precision)
        return seconds

    found = speed.alternate(
        rounds,
        {precision: lambda precision=precision: ours(precision) for precision in PRECISIONS},
        {"MLlib": lambda: whole_fit.mllib(ratings, RANK, 10)},
    )
    return {**found, **counted}


def night_1m(rounds: int) -> dict[str, object]:
    """A night of MovieLens 1M, cold, from the command to the tables, against a script with MLlib's implicit ALS."""
    ratings = data.DATA / "ml-1m" / "ratings.dat"
    return speed.alternate(
        rounds,
        {name: lambda name=name: nights.ours(ratings, RANK, name) for name in ("none", "deconfounded")},
        {"script": lambda: nights.mllib(ratings, RANK)},
    )


def kernels_1m(rounds: int) -> dict[str, object]:
    """The kernels of the users' half-steps, MovieLens 1M: milliseconds in NumPy, and by compiled loops."""
    return {"milliseconds": kernels.measure(data.movielens_1m(), RANK, rounds)}


def course_1m(rounds: int) -> dict[str, object]:
    """Where the seconds of a fit of both stages go, MovieLens 1M, in one process."""
    return _course(data.movielens_1m(), rounds)


def course_10m(rounds: int) -> dict[str, object]:
    """The same, 10M synthetic ratings, 70,000 x 10,000."""
    return _course(data.synthetic(*LARGE, 10_000_000), rounds)


def _course(path: Path, rounds: int) -> dict[str, object]:
    ratings = speed.load(build_session("bench", "local[2]"), path)
    return {"seconds": whole_fit.courses(ratings, RANK, rounds)}


def driver_memory(rounds: int) -> dict[str, object]:
    """Peak memory of the driver (MB) at 1M and at 10M synthetic ratings, both 70,000 x 10,000."""
    small, large = (memory.measure(data.synthetic(*LARGE, n)) for n in (1_000_000, 10_000_000))
    ratios = {name: round(large[name] / small[name], 3) for name in small}
    return {"at_1m": small, "at_10m": large, "ratio": ratios}


BENCHMARKS: dict[str, Callable[[int], dict[str, object]]] = {
    "stage1-1m": stage1_1m,
    "scales-of-factors": scales_of_factors,
    "stage2-1m": stage2_1m,
    "stage2-10m": stage2_10m,
    "extended-sweep-1m": extended_sweep_1m,
    "exposure-fit-100k": exposure_fit_100k,
    "exposure-fit-1m": exposure_fit_1m,
    "exposure-whole-100k": exposure_whole_100k,
    "exposure-whole-1m": exposure_whole_1m,
    "exposure-whole-10m": exposure_whole_10m,
    "whole-fits-100k": whole_fits_100k,
    "whole-fits-1m": whole_fits_1m,
    "whole-fits-10m": whole_fits_10m,
    "explicit-100k": explicit_100k,
    "explicit-1m": explicit_1m,
    "cmfrec-100k": cmfrec_100k,
    "cmfrec-1m": cmfrec_1m,
    "solvers-1m": solvers_1m,
    "both-stages-1m": both_stages_1m,
    "course-1m": course_1m,
    "course-10m": course_10m,
    "night-1m": night_1m,
    "kernels-1m": kernels_1m,
    "warm-start-100k": warm_start_100k,
    "evaluation-1m": evaluation_1m,
    "fold-in-1m": fold_in_1m,
    "top-n-1m": top_n_1m,
    "top-n-10m": top_n_10m,
    "pruning-1m": pruning_1m,
    "driver-memory": driver_memory,
}


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="Which; repeat at will.")
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


def versions(command: str) -> dict[str, object]:
    """How figures came about, to stand beside them."""
    packages = ["pyspark", "numpy", "scipy", "pyarrow", "numba", "faiss-cpu", "implicit", "hpfrec", "cmfrec", "poismf"]
    found = {name: found for name in packages if (found := _version(name))}
    return {"command": command, "versions": {"python": platform.python_version(), **found}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
