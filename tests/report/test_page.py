"""The report as markup: its contents, that no text becomes markup, and that it loads nothing."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dcrec_spark import Metrics, MetricSettings, PredictiveCheck, Stratum
from dcrec_spark.evaluation.distributions import Histogram
from dcrec_spark.evaluation.result import Estimate
from dcrec_spark.report import page
from dcrec_spark.report.page import CertaintyFacts, PartFacts, ReportFacts, Stage

EVIL = "<script>alert('&')</script>"
UNUSED = Metrics(MetricSettings(), {}, {})
LISTS = (("catalogue_ndcg@10", 0.14), ("catalogue_rare_share@10", 0.07))


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
    nobody: Any = None
    return PredictiveCheck(nobody, p, 0.53, 0.54, -4310.0, np.linspace(-4500.0, -4400.0, 100), 900, 1000, nobody)


def facts(**other: Any) -> ReportFacts:
    both = [("ndcg", 0.9), ("ndcg@10", 0.84), ("recall@10", 0.7), ("precision@10", 0.7), ("map@10", 0.7)]
    row = SimpleNamespace(rank=1, title=EVIL, score=4.75, preference=1.0, confounder=0.25)
    row.reasons_text = "because of Emma & <b>Ivanhoe</b> (5.0): +0.41"
    whole = ReportFacts(
        record={
            "run_id": "20260131T000000-abcdef",
            "run_date": "2026-01-31",
            "model_version": f"1a2b{EVIL}",
            "counts": {"test_overlap": 25, "test_unknown": 1, "test_items_missing": 7},
            "timings": {"load the models": 4.2, "predict and rank": 12.0},
            "versions": {"pyspark": "4.1.4"},
        },
        models={
            "this model": "probabilistic matrix factorization, deconfounded, rank 10",
            "baseline model": "the same settings without a confounder",
            "item mean": "the item's mean training rating",
        },
        intercept=3.5,
        unrated_are_zeros=False,
        problems=[f"a warning about {EVIL}"],
        training=PartFacts(900, 1500, stars(5000, 9000, 21000, 27000, 17000)),
        test=PartFacts(880, 1300, stars(1200, 2200, 5300, 6800, 4200)),
        per_user=powers(3, 7),
        per_item=powers(0, 9),
        stages=[
            Stage("exposure", "ELBO", [-284000.0, -240000.0, -233000.0, -232999.9], 1e-5, 100),
            Stage("outcome", "J", [400000.0, 90000.0, 88000.0], 1e-4, 20),
        ],
        check=check(),
        p_values=[45] * 20,
        settings=MetricSettings(ks=(5, 10)),
        estimates={
            "this model": of(*both, ("mse", 0.92), *LISTS, ("catalogue_coverage@10", 0.4)),
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
            (Stratum("user", 8, 20, 300, UNUSED), of(("ndcg", 0.03), ("mse", -0.2))),
            (Stratum("user", 21, 21, 300, UNUSED), {"ndcg": Estimate(-0.004, None, None, 1), **of(("mse", 0.0))}),
            (Stratum("item", 1, 4, 650, UNUSED), of(("mse", 0.2))),
        ],
        certainty=CertaintyFacts(0.9, spread(), 0.25, (1.02, 1.05, 1.2), 0.125),
        gamma=spread(),
        negative_gammas=30,
        samples={f"7{EVIL}": [row], "8": [SimpleNamespace(**{**vars(row), "reasons_text": ""})]},
        no_reasons="",
        k=10,
        listed=powers(0, 8),
        fit_timings={"fit": 60.5},
    )
    return replace(whole, **other)


VOID = {"meta", "br", "path", "use"}


class Read(HTMLParser):
    """The page's elements, and the text of each section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.sections: dict[str, str] = {}
        self._section = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag == "section":
            self._section = str(dict(attrs)["id"])
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split()).replace(page.MINUS, "-")
        self.sections[self._section] = f"{self.sections.get(self._section, '')} {text}".strip()


@pytest.fixture(scope="module")
def html() -> str:
    return page.render(facts())


@pytest.fixture(scope="module")
def read(html: str) -> Read:
    return Read(html)


def test_names_and_titles_stay_text(html: str, read: Read) -> None:
    assert read.tags["script"] == 0
    assert EVIL not in html
    for where in ("problems", "samples"):
        assert EVIL in read.sections[where], where
    assert "Emma & <b>Ivanhoe</b> (5.0): +0.41" in read.sections["samples"]


def test_the_page_loads_nothing_and_what_it_refers_to_is_there_once(html: str, read: Read) -> None:
    assert "http://" not in html
    assert "https://" not in html
    assert not read.tags.keys() & {"link", "img", "iframe", "object", "embed", "script", "base", "form"}
    assert {name for _, name, _ in read.attributes} & {"src", "srcset", "data", "action"} == set()
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))
    assert "@import" not in html
    assert "default-src 'none'" in html
    ids = Counter(str(value) for _, name, value in read.attributes if name == "id")
    targets = {str(value) for _, name, value in read.attributes if name in ("href", "xlink:href")}
    assert {f"#{name}" for name in ids} >= targets
    assert [name for name, times in ids.items() if times > 1] == []


def test_metrics_stand_next_to_baselines_with_intervals_and_verdicts(read: Read) -> None:
    text = read.sections["metrics"]
    assert "this model 0.900 0.890 to 0.910" in text
    assert "item mean 0.900 0.890 to 0.910" in text
    assert "+0.001 -0.009 to 0.011 no difference shown" in text
    assert "+0.020 0.010 to 0.030 better" in text
    assert "-0.010 -0.012 to -0.008 worse" in text
    assert "-0.100 no interval" in text
    assert "40 %" in read.sections["coverage"]
    assert "Places with fewer than 5 ratings@10 this model 0.070" in text
    assert "Differences. What these lists consist of" not in text  # they have none


@pytest.mark.parametrize(
    ("measure", "low", "high", "verdict"),
    [
        ("ndcg", 0.1, 0.2, page.BETTER),
        ("ndcg", -0.2, -0.1, page.WORSE),
        ("mse", 0.1, 0.2, page.WORSE),
        ("item_mae", -0.2, -0.1, page.BETTER),
        ("ndcg", 0.0, 0.1, page.NONE),
        ("ndcg", None, None, page.UNKNOWN),
    ],
)
def test_an_interval_with_0_inside_shows_no_difference(measure: str, low: Any, high: Any, verdict: str) -> None:
    assert page.verdict(measure, Estimate(0.0, low, high, 9)) == verdict


def test_every_section_shows_its_facts(read: Read) -> None:
    expected = {
        "strata": "8 to 20 300 +0.030 0.020 to 0.040 better, n = 900 -0.200 -0.210 to -0.190 better, n = 900",
        "samples": "4.750 1.000 0.250",
        "certainty": "The 90 % interval of a recommended item is 0.60 wide on average, from -1.00 to 2.00",
        "data": "Test ratings dropped because their pair is in training: 25 .",
        "convergence": "Exposure stage: 4 iterations. Converged",
        "check": "all users together 0.995",
        "card": "below 0 for 30 of 190 users",
        "timings": "predict and rank 12.0",
    }
    for section, text in expected.items():
        assert text.replace(" .", ".") in read.sections[section].replace(" .", "."), read.sections[section]


def test_what_there_is_none_of_is_explained() -> None:
    missing = {section: f"no {section}" for section in ("strata", "certainty", "check")}
    bare: Any = {**missing, "gamma": None, "unrated_are_zeros": True, "no_reasons": "no reasons"}
    none = Read(page.render(facts(**bare))).sections
    for section, words in missing.items():
        assert words in none[section]
    assert "no reasons" in none["samples"]
    assert "no confounder part" in none["card"]
    assert "Do not read them as ratings" in none["metrics"]


def test_what_fails_comes_first(read: Read) -> None:
    assert list(read.sections)[1:3] == ["problems", "metrics"]
    problems = read.sections["problems"]
    assert "Exposure predictive check FAILED (p = 0.995)" in problems
    assert "Outcome stage: 3 iterations. NOT converged" in problems
    assert page.problems(facts(check=check(0.5), stages=facts().stages[:1], problems=[])) == []
