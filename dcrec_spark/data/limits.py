"""Limits of numbers, for rows that jobs validate and for those of an estimator, which needs no package of the jobs."""

# No pair was seen more often; and sums of such counts stay whole numbers in 64 bits.
LARGEST_COUNT = 1e9
# No scale goes as far; and squares of such ratings, times the largest weight, are far from the end of float64.
LARGEST_RATING = 1e9
# Of a pair, alone and as a share of the largest: a rating that is less likely would outweigh all others together, and
# the inverse of the smallest numbers is infinite.
SMALLEST_PROPENSITY = 1e-30
