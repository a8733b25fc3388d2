"""Loops over the rows of a block, compiled by numba: the solvers of least squares, and what all loops are made of.

Other loops are in the modules of :mod:`dcrec_spark.kernels` that call them. A loop computes the rows from ``first`` to ``last`` and writes to them alone. Ranges of rows run on several threads, and
a row's numbers do not depend on its range. Sums are in double precision, but for the normal equations, which are in
that of their inputs. numba's cache compares a loop's own file only: after a change in one file, remove what is cached
of the files that import it.
"""
