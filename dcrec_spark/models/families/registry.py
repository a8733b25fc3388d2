"""Which family of outcome models a name stands for: the only place that lists them."""

from pyspark.ml.param import Params

from dcrec_spark.models.families.base import OutcomeFamily
from dcrec_spark.models.families.gaussian import Probabilistic, Weighted
from dcrec_spark.models.families.poisson_outcome import PoissonOutcome

FAMILIES: dict[str, type[OutcomeFamily]] = {}


def register(outcome: str, family: type[OutcomeFamily]) -> None:
    """Let ``outcome`` name a family.

    Raises
    ------
    ValueError : the name stands for another family already.
    """
    if FAMILIES.get(outcome, family) is not family:
        raise ValueError(f"outcome={outcome!r} is {FAMILIES[outcome].__name__} already: choose another name")
    FAMILIES[outcome] = family


def outcome_names() -> tuple[str, ...]:
    """Return what the Param ``outcome`` may be."""
    return tuple(FAMILIES)


def family_of(params: Params) -> OutcomeFamily:
    """Return the outcome family that an estimator or a fitted model names, with its settings."""
    return FAMILIES[params.getOrDefault("outcome")].of(params)


register("weighted", Weighted)
register("probabilistic", Probabilistic)
register("poisson", PoissonOutcome)
