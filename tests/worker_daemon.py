"""What the tests' Python workers are forked from: Spark's own daemon, without archives on its path.

Spark puts pyspark.zip and a jar on the path of Python workers, which find the same package beside them, installed. At
the start of every task a worker forgets what it knows of its path, and Python 3.11 then reads the directory of each
archive again, once for each package inside: longer than most tasks of a test take. The package makes its own workers
forget less (``dcrec_spark/spark/worker.py``); tests have many tasks that do not import it.
"""

import sys

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()

from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
