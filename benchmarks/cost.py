"""Fit the cost model of ``dcrec plan`` to the sizes that were measured, and try it on sizes that were held out.

    python -m benchmarks.cost      reads benchmarks/results/sizes.json, writes dcrec_spark/sizing/coefficients.json

Each stage's seconds are a sum of its units of work with coefficients that are not negative; what counts is the relative
error.
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from dcrec_spark.engine.sizing.work import STAGES, Size, work
from scipy.optimize import nnls

from benchmarks.run import versions
from benchmarks.sizes import RESULTS, SIZES
from dcrec_spark.engine.sizing import estimate

COEFFICIENTS = Path(estimate.__file__).with_name("coefficients.json")
HELD_OUT = ("300k-50", "2m-30", "5m-20", "10m-10", "wide", "skewed", "100m-10")


def fitted(seen: dict[str, Any], stage: str) -> dict[str, float]:
    """Return unit -> seconds of each, by non-negative least squares of relative errors."""
    runs = [run for name, run in seen.items() if name not in HELD_OUT]
    counted = [work(stage, _size(run), run["cores"]) for run in runs]
    units = list(counted[0])
    taken = np.array([run["seconds"][stage] for run in runs])
    relative = np.array([[row[unit] for unit in units] for row in counted]) / taken[:, None]
    scale = relative.max(axis=0)
    coefficients, _ = nnls(relative / scale, np.ones(len(runs)))
    return dict(zip(units, (float(f"{c:.4g}") for c in coefficients / scale), strict=True))


def _size(run: dict[str, Any]) -> Size:
    return Size(run["users"], run["items"], run["ratings"], run["rank"], run["rank"])


def off(seen: dict[str, Any], seconds: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return run -> stage -> what the model says, as a multiple of what the run took."""
    return {
        name: {
            stage: round(
                sum(seconds[stage][unit] * n for unit, n in work(stage, _size(run), run["cores"]).items())
                / run["seconds"][stage],
                2,
            )
            for stage in STAGES
            if stage in run["seconds"]
        }
        for name, run in seen.items()
        if name in HELD_OUT
    }


def main() -> None:
    on_record = {name: run for name, run in json.loads(RESULTS.read_text()).items() if name in SIZES}
    seen = {name: run for name, run in on_record.items() if run["exchange"] == "blocks" and "local" in run["master"]}
    seconds = {stage: fitted(seen, stage) for stage in STAGES}
    held_out = off(seen, seconds)
    fitted_to = {name: run for name, run in seen.items() if name not in HELD_OUT}
    errors = [max(ratio, 1 / ratio) for of_run in held_out.values() for ratio in of_run.values()]
    found = {
        "seconds": seconds,
        "measured": {
            "fitted_to": list(fitted_to),
            "most_ratings": max(run["ratings"] for run in fitted_to.values()),
            "most_cores": max(run["cores"] for run in fitted_to.values()),
            "off_on_held_out": {"median": round(median(errors), 2), "worst": round(max(errors), 2), "runs": held_out},
        },
        **versions("python -m benchmarks.cost"),
    }
    COEFFICIENTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
