"""The contract of every estimator, for one configuration of each kind of state that a model has.

Those with ``blocks=False`` are compared in blocks with their dense references, in tests/models/outcome/test_outcome.py.
"""

from tests.models.contract import ExposureContract, OutcomeContract
from tests.models.world import NUMBERS


class TestExposureCounts(ExposureContract, world=NUMBERS, countCol="count"): ...


class TestPoissonDeconfounded(OutcomeContract, outcome="poisson", confounderWeight="global"): ...


class TestInversePropensities(OutcomeContract, world=NUMBERS, blocks=False, outcome="weighted", adjustment="ipw"): ...


class TestExtended(
    OutcomeContract, outcome="probabilistic", fitBiases=True, regByCount=True, confounderLink="log", leaveOneOut=True
): ...
