"""Loops over the rows of a block, compiled by numba.

A function of :mod:`dcrec_spark.kernels` imports its loops when it is first called: numba takes half a second to load.
A loop computes the rows from ``first`` to ``last`` and writes to them alone, on several threads. Sums are in double
precision, but for the normal equations, which are in that of their inputs. numba's cache compares a loop's own file
only: after a change in one file, remove what is cached of the files that import it.
"""
