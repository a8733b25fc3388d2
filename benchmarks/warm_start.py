"""How many sweeps a warm start saves: yesterday's model, a few ratings more, today's fit.

Ratings in the order of their hash; the fit of the first 95 % starts the fit of all. Both fits of all end when the
objective moves by less than the tolerance.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, PoissonFactorization

FAMILY: dict[str, dict[str, Any]] = {
    "weighted": {"alpha": 1.0, "regParam": 1.0},
    "probabilistic": {"regParam": 5.0},
    "poisson": {},
}
RANK = 10


def measure(ratings: DataFrame) -> dict[str, object]:
    """Iterations of both stages and the objectives at the end, cold and warm, for each outcome."""
    yesterday = ratings.where(F.pmod(F.xxhash64("user", "item"), F.lit(20)) != 0).persist()
    rows: dict[str, object] = {"new_ratings": ratings.count() - yesterday.count()}
    exposures = {"first": _exposure().fit(yesterday)}
    exposures |= {"cold": _exposure().fit(ratings), "warm": _exposure(initialModel=exposures["first"]).fit(ratings)}
    rows["exposure"] = {n: _end(exposures[n].elboHistory) for n in ("cold", "warm")}
    for name, settings in FAMILY.items():
        first = _outcome(name, settings, exposures["first"]).fit(yesterday)
        cold = _outcome(name, settings, exposures["warm"]).fit(ratings)
        warm = _outcome(name, settings, exposures["warm"], initialModel=first).fit(ratings)
        rows[name] = {n: _end(model.objectiveHistory) for n, model in (("cold", cold), ("warm", warm))}
    return {"rank": RANK, "tol": {"exposure": 1e-5, "outcome": 1e-4}, **rows}


def _exposure(**more: Any) -> PoissonFactorization:
    return PoissonFactorization(rank=RANK, tol=1e-5, maxIter=300, **more)


def _outcome(name: str, settings: dict[str, Any], exposure: Any, **more: Any) -> DeconfoundedMF:
    return DeconfoundedMF(outcome=name, rank=RANK, exposureModel=exposure, tol=1e-4, maxIter=200, **settings, **more)


def _end(history: list[float]) -> dict[str, float]:
    return {"iterations": len(history), "objective": round(history[-1], 1)}
