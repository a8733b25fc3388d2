"""Names of the families of outcome models: the only place that lists them."""

from pyspark.ml.param import Params

from dcrec_spark.errors import ConfigError
from dcrec_spark.models.families.base import OutcomeFamily
from dcrec_spark.models.families.gaussian import Probabilistic, Weighted
from dcrec_spark.models.families.poisson import PoissonOutcome
from dcrec_spark.settings.tables import OUTCOMES

FAMILIES: dict[str, type[OutcomeFamily]] = {}


def register(outcome: str, family: type[OutcomeFamily], doc: str = "") -> None:
    """Let ``outcome`` name a family, with its meaning in half a sentence. From then on the Param takes the name.

    Raises ValueError: the name belongs to another family already.
    """
    if FAMILIES.get(outcome, family) is not family:
        raise ValueError(f"outcome={outcome!r} is {FAMILIES[outcome].__name__} already: choose another name")
    FAMILIES[outcome] = family
    OUTCOMES.setdefault(outcome, doc)


def family_of(params: Params) -> OutcomeFamily:
    """Return the outcome family that an estimator or a fitted model names, with its settings."""
    return FAMILIES[params.getOrDefault("outcome")].of(params)


def consistent_family_of(params: Params) -> OutcomeFamily:
    """Return the outcome family that an estimator names, if its settings go together."""
    family = family_of(params)
    for name, values in family.allowed.items():
        if params.isSet(name) and params.getOrDefault(name) not in values:
            raise ConfigError(
                f"{name}={params.getOrDefault(name)} with outcome={params.getOrDefault('outcome')}, which has "
                f"{' or '.join(map(str, values))} alone: leave {name} out"
            )
    family.require_consistent()
    return family


register("weighted", Weighted)
register("probabilistic", Probabilistic)
register("poisson", PoissonOutcome)
