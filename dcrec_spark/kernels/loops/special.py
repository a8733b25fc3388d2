"""Logarithm, exponential, digamma and the logarithm of the gamma function, for arguments in the range of doubles.

They have no branch and no call, so a loop over them becomes vector code: eight numbers at a time, where a library's
logarithm takes one.
"""

import math

import numpy as np

from dcrec_spark.kernels.loops.jit import inline

_SHIFT = 8  # the asymptotic series are exact to the last digits from here on
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_LOG_2 = math.log(2.0)
# A double is mantissa x 2^exponent, the exponent above 52 bits, counted from -1023.
_MANTISSA_BITS, _EXPONENT_OF_1 = 52, 1023
_BITS_OF_ROOT_HALF = 0x3FE6A09E667F3BCD
# Of arguments of the exponential: beyond, the result would not be a normal number.
_LEAST, _MOST = -708.0, 709.0


@inline
def log(x: float) -> float:
    """Compute the logarithm for x > 0 as log m + e log 2, m between sqrt(1/2) and sqrt(2): 2 artanh((m - 1) / (m + 1)).

    NaN if x is not finite.
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _BITS_OF_ROOT_HALF) >> _MANTISSA_BITS
    mantissa: float = np.int64(bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    tail = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21))))
    series = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * tail)))))
    logarithm: float = exponent * _LOG_2 + 2.0 * s * (1.0 + series) + 0.0 * x
    return logarithm


@inline
def exp(x: float) -> float:
    """Compute the exponential as 2^n e^r, |r| <= log(2) / 2. Beyond the range of normal numbers it is constant."""
    bounded = min(max(x, _LEAST), _MOST)
    n = np.floor(bounded / _LOG_2 + 0.5)
    r = bounded - n * _LOG_2
    tail = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600))))
    tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * tail)))
    series = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * tail)))
    power: float = np.int64((np.int64(n) + _EXPONENT_OF_1) << _MANTISSA_BITS).view(np.float64)
    result: float = series * power
    return result


@inline
def digamma(x: float) -> float:
    """Compute the digamma function at x + 8, minus the sum of all 1 / (x + k)."""
    y = x * (x + 7.0)
    outer, inner = y * (y + 6.0), (y + 10.0) * (y + 12.0)  # x (x + 7) (x + 1) (x + 6), and the other four
    slope = ((2.0 * y + 6.0) * inner + outer * (2.0 * y + 22.0)) * (2.0 * x + 7.0)
    inverse = 1.0 / (x + _SHIFT)
    square = inverse * inverse
    tail = 1 / 240 - square * (1 / 132 - square * (691 / 32760 - square * (1 / 12 - square * 3617 / 8160)))
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * tail))
    return log(x + _SHIFT) - 0.5 * inverse - square * series - slope / (outer * inner)


@inline
def log_gamma(x: float) -> float:
    """Compute the logarithm of the gamma function at x + 8, minus that of the product of all x + k."""
    z = x * (x + 7.0)
    product = z * (z + 6.0) * (z + 10.0) * (z + 12.0)  # pairs of x + k and x + 7 - k
    y = x + _SHIFT
    inverse = 1.0 / y
    square = inverse * inverse
    tail = 1 / 1680 - square * (1 / 1188 - square * (691 / 360360 - square * (1 / 156 - square * 3617 / 122400)))
    series = 1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * tail))
    return (y - 0.5) * log(y) - y + _HALF_LOG_TAU + inverse * series - log(product)
