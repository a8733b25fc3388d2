"""Loops over the rows of a block, compiled by numba: the same sums as the NumPy kernels beside them, in one pass.

Nothing here is imported unless it pays (:mod:`dcrec_spark.kernels.compiled`): numba takes half a second to load. Each
loop works on the rows from ``first`` to ``last`` and writes to them alone, so that ranges of rows run side by side and
a row's numbers do not depend on the range that it is in. Sums are added up in double precision whatever the inputs' is.
"""
