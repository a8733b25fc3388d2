"""What the tests' Python workers are forked from: Spark's own daemon, without archives on its path, its imports made.

Spark puts pyspark.zip and a jar on the path of Python workers, which find the same package beside them, installed. At
the start of every task a worker forgets what it knows of its path, and Python 3.11 then reads the directory of each
archive again, once for each package inside: longer than most tasks of a test take. At its end it collects its garbage,
and searches all that imports left behind but for what was frozen before the fork.
"""

import gc
import sys

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()

from pyspark.daemon import manager

import dcrec_spark  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
