"""Peak memory of the driver, Python and JVM, of a fit of both stages.

The executors are processes of their own (local-cluster), so that the driver's share can be seen:

    python -m benchmarks.memory PATH     fits once and prints the peaks as JSON
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.spark.session import build_session

RANK = 50
ITERATIONS = 3


def peaks(path: Path) -> dict[str, float]:
    """MB of this process and of the JVM it started, at their highest, for one fit of both stages."""
    spark = build_session(
        "memory", "local-cluster[2,1,6144]", {"spark.driver.memory": "2g", "spark.executor.memory": "6g"}
    )
    spark.sparkContext.setCheckpointDir(str(path.parent / "checkpoints"))
    ratings = spark.read.parquet(str(path))
    exposure = PoissonFactorization(rank=RANK, maxIter=ITERATIONS, tol=0.0)
    DeconfoundedMF.forCounts(rank=RANK, maxIter=ITERATIONS).setParams(exposureModel=exposure, tol=0.0).fit(ratings)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    live = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
    return {"python": _peak("self"), "jvm_resident": _peak(str(jvm)), "jvm_live_after": round(live, 1)}


def _peak(process: str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return round(int(found[1]) / 1024, 1) if found else float("nan")


def measure(path: Path) -> dict[str, float]:
    """The peaks of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    print(json.dumps(peaks(Path(sys.argv[1]))))
