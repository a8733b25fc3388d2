"""The digamma function and the logarithm of the gamma function, for arguments above 0."""

import math

from dcrec_spark.kernels.loops.compiling import compiled

_SHIFT = 8  # the asymptotic series are exact to the last digits from here on
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@compiled
def digamma(x: float) -> float:
    """Compute it from x + n, less the sum of all 1 / (x + k), without a branch: a loop over many is one of vectors."""
    product, slope = 1.0, 0.0
    for k in range(_SHIFT):
        slope = slope * (x + k) + product
        product *= x + k
    inverse = 1.0 / (x + _SHIFT)
    square = inverse * inverse
    tail = 1 / 240 - square * (1 / 132 - square * (691 / 32760 - square * (1 / 12 - square * 3617 / 8160)))
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * tail))
    return math.log(x + _SHIFT) - 0.5 * inverse - square * series - slope / product


@compiled
def log_gamma(x: float) -> float:
    """Compute it from x + n, less the logarithm of the product of all x + k."""
    product = 1.0
    for k in range(_SHIFT):
        product *= x + k
    y = x + _SHIFT
    inverse = 1.0 / y
    square = inverse * inverse
    tail = 1 / 1680 - square * (1 / 1188 - square * (691 / 360360 - square * (1 / 156 - square * 3617 / 122400)))
    series = 1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * tail))
    return (y - 0.5) * math.log(y) - y + _HALF_LOG_TAU + inverse * series - math.log(product)
