"""The contract of every estimator, by configuration.

Those with ``blocks=False`` are compared in blocks with their dense twins, in tests/models/outcome/test_outcome.py.
"""

from tests.models.contract import ExposureContract, OutcomeContract
from tests.models.world import NUMBERS


class TestExposure(ExposureContract): ...


class TestExposureCounts(ExposureContract, world=NUMBERS, countCol="count"): ...


class TestWeightedDeconfounded(OutcomeContract, blocks=False): ...


class TestProbabilisticDeconfounded(OutcomeContract, world=NUMBERS, blocks=False, outcome="probabilistic"): ...


class TestClassical(OutcomeContract, world=NUMBERS, adjustment="none"): ...


class TestPoissonDeconfounded(OutcomeContract, outcome="poisson", confounderWeight="global"): ...


class TestInversePropensities(OutcomeContract, world=NUMBERS, outcome="probabilistic", adjustment="ipw"): ...


class TestExtended(
    OutcomeContract,
    outcome="probabilistic",
    unobservedWeight=0.0,
    fitBiases=True,
    regByCount=True,
    confounderLink="log",
    leaveOneOut=True,
    confounderWeight="pooled",
): ...
