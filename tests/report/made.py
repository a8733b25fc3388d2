"""Facts of a report that nothing had to be fitted for, with names that try to be markup."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dcrec_spark import PredictiveCheck
from dcrec_spark.evaluation.distributions import Histogram, Reliability
from dcrec_spark.evaluation.ranking_change import RankingChange
from dcrec_spark.report.facts import (
    AuditFacts,
    CertaintyFacts,
    ChangeFacts,
    CheckFacts,
    Counts,
    DataFacts,
    GammaFacts,
    LimitFacts,
    MetricFacts,
    ModelFacts,
    ReportFacts,
    SampleUser,
    Stage,
    StrataFacts,
)

EVIL = "<script>alert('&')</script>"
K = 10
# With these the table of the ranking has eight columns: more than a phone shows.
MORE = ("recall@5", "precision@5", "map@5", "recall@10", "precision@10", "map@10")
# Folders of the machine that made the page, which are none of its readers' business.
FOLDER = "/srv/machine/home"


def estimates(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    """model, measure, value, low, high; n is 900."""
    frame = pd.DataFrame(rows, columns=["model", "measure", "value", "low", "high"])
    return frame.assign(n=900)


def stars(*counts: int) -> Histogram:
    """Ratings of 1, 2, ..."""
    low = np.arange(1.0, len(counts) + 1)
    mean = float(np.average(low, weights=counts))
    bars = pd.DataFrame({"low": low, "high": low, "n": counts})
    return Histogram(bars, sum(counts), mean, 1.1, 1.0, float(len(counts)))


def spread() -> Histogram:
    """Of a number that takes many values, on both sides of 0."""
    low = np.linspace(-1.0, 2.0, 21)
    bars = pd.DataFrame({"low": low[:-1], "high": low[1:], "n": np.arange(20)})
    return Histogram(bars, 190, 0.6, 0.5, -1.0, 2.0)


def powers(first: int, n: int) -> pd.DataFrame:
    """n bars from 2^first on."""
    low = 2 ** np.arange(first, first + n)
    return pd.DataFrame({"low": low, "high": 2 * low - 1, "n": 100 + 10 * np.arange(n)})


def change() -> RankingChange:
    return RankingChange(
        k=K,
        depth=50,
        users=900,
        places=9000,
        kept=0.75,
        replaced=pd.DataFrame({"replaced": range(K + 1), "users": [100, 200, 300, 200, 50, 50, 0, 0, 0, 0, 0]}),
        moves=pd.DataFrame({"move": [-9, -1, 0, 1, 2, 40], "n": [10, 500, 4000, 1500, 700, 90]}),
        entered=120,
        popularity=(181.5, 140.25),
        items=pd.DataFrame({"item_id": [7, 8], "before": [3, 80], "after": [60, 2], "ratings": [12, 300]}),
    )


def check() -> CheckFacts:
    """One that fails."""
    nobody: Any = None
    found = PredictiveCheck(nobody, 0.995, 0.53, 0.54, -4310.0, np.linspace(-4500.0, -4400.0, 100), 900, 1000, nobody)
    return CheckFacts(found, [45] * 20, 0.2)


def strata() -> StrataFacts:
    """Three strata of users, two of items; one has no interval, another no NDCG."""
    rows = [
        ("user", "8 to 20", 300, "ndcg", 0.03, 0.02, 0.04, 290),
        ("user", "21 to 69", 300, "ndcg", -0.004, np.nan, np.nan, 1),
        ("user", "70", 300, "ndcg", 0.0, -0.01, 0.01, 290),
        *[("user", ratings, 300, "mse", -0.2, -0.3, -0.1, 6000) for ratings in ("8 to 20", "21 to 69", "70")],
        *[("item", "1 to 4", 650, measure, 0.2, 0.1, 0.3, 1234) for measure in ("ndcg", "ndcg@10", "mse")],
        ("item", "5 to 400", 650, "mse", 0.0, -0.1, 0.1, 4321),
    ]
    columns = ["side", "ratings", "members", "measure", "value", "low", "high", "n"]
    return StrataFacts("classical twin", pd.DataFrame(rows, columns=columns))


def facts(**other: Any) -> ReportFacts:
    """A whole report; ``other`` replaces parts of it."""
    values = estimates(
        *[("this model", m, v, v - 0.01, v + 0.01) for m, v in (("ndcg", 0.9), ("ndcg@10", 0.84), ("mse", 0.92))],
        *[("this model", m, 0.7, 0.69, 0.71) for m in MORE],
        *[("classical twin", m, v, v - 0.01, v + 0.01) for m, v in (("ndcg", 0.899), ("ndcg@10", 0.839))],
        *[("item mean", m, v, v - 0.01, v + 0.01) for m, v in (("ndcg", 0.89), ("ndcg@10", 0.81), ("mse", 1.01))],
        *[(who, "catalogue_ndcg@10", v, v - 0.01, v + 0.01) for who, v in (("this model", 0.14), ("item mean", 0.15))],
        *[(who, "catalogue_coverage@10", v, np.nan, np.nan) for who, v in (("this model", 0.4), ("item mean", 0.05))],
    )
    differences = estimates(
        ("classical twin", "ndcg", 0.001, -0.002, 0.004),
        ("classical twin", "ndcg@10", 0.001, np.nan, np.nan),
        ("item mean", "ndcg", 0.01, 0.006, 0.014),
        ("item mean", "mse", -0.09, -0.1, -0.08),
        ("item mean", "catalogue_ndcg@10", -0.01, -0.012, -0.008),
    )
    rows = pd.DataFrame(
        {
            "rank": [1, 2],
            "title": [EVIL, "Wallace & Gromit: A Close Shave (1995), a title that is long enough to take two lines"],
            "score": [4.75, 4.5],
            "preference": [1.0, 0.9],
            "confounder": [0.25, 0.1],
            "reasons_text": ["because of Emma & <b>Ivanhoe</b> (5.0): +0.41", "because of Ran (4.0): +0.2"],
        }
    )
    bins = pd.DataFrame({"prediction": np.linspace(1, 5, 9), "rating": np.linspace(1.4, 4.7, 9), "deviation": 1.0})
    whole = ReportFacts(
        run_id="20260131T000000-abcdef",
        run_date="2026-01-31",
        models=[
            ModelFacts("this model", "probabilistic matrix factorization, deconfounded, rank 10", f"1a2b{EVIL}"),
            ModelFacts("classical twin", "the same settings without the confounder"),
            ModelFacts("item mean", "the item's mean training rating"),
        ],
        data=DataFacts(
            training=Counts(900, 1500, stars(5000, 9000, 21000, 27000, 17000)),
            test=Counts(880, 1300, stars(1200, 2200, 5300, 6800, 4200)),
            overlap=25,
            unknown=1,
            per_user=powers(3, 7),
            per_item=powers(0, 9),
        ),
        stages=[
            Stage("exposure", "ELBO", True, [-284000.0, -240000.0, -233000.0, -232999.9], 1e-5, 100),
            Stage("outcome", "J", False, [400000.0, 90000.0, 88000.0], 1e-4, 20),
        ],
        check=check(),
        metrics=MetricFacts(values, differences, "2^rel-1", 3.0, 0.95, 200),
        reliability=Reliability(bins.assign(n=[5, 50, 300, 900, 2000, 3000, 2500, 900, 100]), 0.9, -0.02),
        outcome="probabilistic",
        adjustment="deconfounded",
        gamma=GammaFacts(spread(), None, 30),
        change=ChangeFacts(change(), "classical twin", {7: EVIL}),
        strata=strata(),
        samples=[SampleUser(f"7{EVIL}", rows), SampleUser("8", rows.assign(reasons_text=None))],
        intercept=3.5,
        k=K,
        listed=powers(0, 8),
        timings={"load the models": 4.2, "predict and rank": 12.0},
        fit_timings={"fit": 60.5},
        versions={"pyspark": "4.1.4"},
        configuration={
            "run": {"name": EVIL},
            "input": {"path": f"file:{FOLDER}/data/u.data"},
            "output": {"path": f"{FOLDER}/out"},
            "evaluation": {"titles_path": f"{FOLDER}/out/titles.csv"},
        },
        certainty=CertaintyFacts(0.9, spread(), 0.25, (1.02, 1.05, 1.2), powers(0, 5), 0.125),
        audit=AuditFacts(
            [
                LimitFacts("max_churn", 0.125, 0.5, True, f"a note on {EVIL}"),
                LimitFacts("floor", 0.08, 0.1, False, "catalogue_ndcg@10 is 0.08", 0.07, 0.09, forced=True),
            ],
            "catalogue_ndcg@10",
            {"this model": (0.08, 0.07, 0.09), "last model": (0.09, None, None)},
        ),
        warnings=[f"a note about {EVIL}", f"a cold start: there is no previous run under {FOLDER}/out to start from"],
    )
    return replace(whole, **other)


def one_value(value: float, n: int) -> Histogram:
    """Of a number that is always the same."""
    return Histogram(pd.DataFrame({"low": [value], "high": [value], "n": [n]}), n, value, 0.0, value, value)


def likes() -> ReportFacts:
    """A whole report on a model of likes: all ratings are 1, all users and items alike, nobody's list changes."""
    whole = facts()
    alike = pd.DataFrame({"low": [16], "high": [31], "n": [900]})
    same = replace(
        change(),
        kept=1.0,
        replaced=pd.DataFrame({"replaced": range(K + 1), "users": [900] + [0] * K}),
        moves=pd.DataFrame({"move": [0], "n": [9000]}),
        entered=0,
        items=pd.DataFrame({"item_id": [], "before": [], "after": [], "ratings": []}),
    )
    bins = pd.DataFrame({"prediction": [0.9], "rating": [1.0], "deviation": [0.0], "n": [19_000]})
    return replace(
        whole,
        data=replace(
            whole.data,
            training=Counts(900, 1500, one_value(1.0, 18_000)),
            test=Counts(900, 1500, one_value(1.0, 19_000)),
            per_user=alike,
            per_item=alike,
        ),
        reliability=Reliability(bins, float("nan"), -0.1),
        outcome="weighted",
        gamma=GammaFacts(one_value(0.25, 900), None, 0),
        change=ChangeFacts(same, "classical twin", {}),
        listed=alike,
    )
