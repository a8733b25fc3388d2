"""Facts of a report that no fit was needed for, with names that try to be markup."""

from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from dcrec_spark import MetricSettings, PredictiveCheck
from dcrec_spark.evaluation.distributions import Histogram
from dcrec_spark.evaluation.result import Estimate
from dcrec_spark.report.facts import CertaintyFacts, DataFacts, GammaFacts, PartFacts, ReportFacts, Stage, StratumFacts

EVIL = "<script>alert('&')</script>"


def of(*values: tuple[str, float]) -> dict[str, Estimate]:
    """Measure -> estimate with an interval of 0.01 to both sides; coverage has none."""
    return {
        name: Estimate(value, *((None, None) if "coverage" in name else (value - 0.01, value + 0.01)), 900)
        for name, value in values
    }


def stars(*counts: int) -> Histogram:
    low = np.arange(1.0, len(counts) + 1)
    bars = pd.DataFrame({"low": low, "high": low, "n": counts})
    return Histogram(bars, sum(counts), float(np.average(low, weights=counts)), 1.1, 1.0, float(len(counts)))


def spread() -> Histogram:
    """Of a number with many values, on both sides of 0."""
    low = np.linspace(-1.0, 2.0, 21)
    bars = pd.DataFrame({"low": low[:-1], "high": low[1:], "n": np.arange(20)})
    return Histogram(bars, 190, 0.6, 0.5, -1.0, 2.0)


def powers(first: int, n: int) -> pd.DataFrame:
    low = 2 ** np.arange(first, first + n)
    return pd.DataFrame({"low": low, "high": 2 * low - 1, "n": 100 + 10 * np.arange(n)})


def check(p: float = 0.995) -> PredictiveCheck:
    """One that fails, if p is not near the middle."""
    nobody: Any = None
    return PredictiveCheck(nobody, p, 0.53, 0.54, -4310.0, np.linspace(-4500.0, -4400.0, 100), 900, 1000, nobody)


def facts(**other: Any) -> ReportFacts:
    """A whole report; ``other`` replaces parts of it."""
    both = [("ndcg", 0.9), ("ndcg@10", 0.84), ("recall@10", 0.7), ("precision@10", 0.7), ("map@10", 0.7)]
    row = SimpleNamespace(rank=1, title=EVIL, score=4.75, preference=1.0, confounder=0.25)
    row.reasons_text = "because of Emma & <b>Ivanhoe</b> (5.0): +0.41"
    whole = ReportFacts(
        run_id="20260131T000000-abcdef",
        run_date=date(2026, 1, 31),
        version=f"1a2b{EVIL}",
        models={
            "this model": "probabilistic matrix factorization, deconfounded, rank 10",
            "baseline model": "the same settings without a confounder",
            "item mean": "the item's mean training rating",
        },
        outcome="probabilistic",
        adjustment="deconfounded",
        intercept=3.5,
        unrated_are_zeros=False,
        problems=[f"a warning about {EVIL}"],
        data=DataFacts(
            PartFacts("training", 900, 1500, stars(5000, 9000, 21000, 27000, 17000)),
            PartFacts("test", 880, 1300, stars(1200, 2200, 5300, 6800, 4200)),
            *(25, 1, 7),
            powers(3, 7),
            powers(0, 9),
        ),
        stages=[
            Stage("exposure", "ELBO", [-284000.0, -240000.0, -233000.0, -232999.9], 1e-5, 100),
            Stage("outcome", "J", [400000.0, 90000.0, 88000.0], 1e-4, 20),
        ],
        check=check(),
        p_values=[45] * 20,
        settings=MetricSettings(ks=(5, 10)),
        estimates={
            "this model": of(*both, ("mse", 0.92), ("catalogue_ndcg@10", 0.14), ("catalogue_coverage@10", 0.4)),
            "baseline model": of(*both, ("mse", 0.93), ("catalogue_ndcg@10", 0.13), ("catalogue_coverage@10", 0.3)),
            "item mean": of(*both, ("mse", 1.01)),
        },
        differences={
            "baseline model": {
                **of(*((name, 0.001) for name, _ in both), ("mse", -0.09)),
                "catalogue_ndcg@10": Estimate(-0.01, -0.012, -0.008, 900),
            },
            "item mean": {**of(*((name, 0.02) for name, _ in both)), "mse": Estimate(-0.1, None, None, 900)},
        },
        strata=[
            StratumFacts("user", "8 to 20", 300, of(("ndcg", 0.03), ("mse", -0.2))),
            StratumFacts("user", "21", 300, {"ndcg": Estimate(-0.004, None, None, 1), **of(("mse", 0.0))}),
            StratumFacts("item", "1 to 4", 650, of(("mse", 0.2))),
        ],
        certainty=CertaintyFacts(0.9, spread(), 0.25, (1.02, 1.05, 1.2), 0.125),
        gamma=GammaFacts(spread(), 30),
        samples={f"7{EVIL}": [row], "8": [SimpleNamespace(**{**vars(row), "reasons_text": ""})]},
        no_reasons="",
        k=10,
        listed=powers(0, 8),
        timings={"load the models": 4.2, "predict and rank": 12.0},
        fit_timings={"fit": 60.5},
        versions={"pyspark": "4.1.4"},
    )
    return replace(whole, **other)
