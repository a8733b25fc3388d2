"""The digamma function and the logarithm of the gamma function, for arguments above 0."""

import math

from dcrec_spark.kernels.loops.compiling import compiled

_FROM = 10.0  # from here on the asymptotic series are exact to the last digits
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@compiled
def digamma_and_log_gamma(x: float) -> tuple[float, float]:
    """Compute both, by the series at x + n, n whole, and the products that lead back::

    digamma(x) = digamma(x + n) - sum_k 1 / (x + k)       log gamma(x) = log gamma(x + n) - log prod_k (x + k)
    """
    product, slope = 1.0, 0.0
    while x < _FROM:
        slope = slope * x + product
        product *= x
        x += 1.0
    inverse = 1.0 / x
    square, log = inverse * inverse, math.log(x)
    digamma = log - 0.5 * inverse - slope / product
    digamma -= square * (
        1 / 12
        - square
        * (
            1 / 120
            - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square * (691 / 32760 - square / 12))))
        )
    )
    log_gamma = (x - 0.5) * log - x + _HALF_LOG_TAU - math.log(product)
    log_gamma += inverse * (
        1 / 12
        - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188 - square * 691 / 360360))))
    )
    return digamma, log_gamma
