"""The report as markup: what it says, that nothing gets out of its quotes, and that it needs nothing but itself."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from dcrec_spark.report import (
    audit_section,
    certainty_section,
    fit_sections,
    list_sections,
    result_sections,
    strata_section,
    words,
)
from dcrec_spark.report.facts import AuditFacts, CertaintyFacts, GammaFacts, Stage
from dcrec_spark.report.fit_sections import settled
from dcrec_spark.report.page import ids, in_short, render, title
from tests.report.made import EVIL, FOLDER, estimates, facts, likes

NAMED = {"short": in_short, "audit": audit_section.audit, "check": fit_sections.check, "gamma": result_sections.gamma}
NAMED |= {"certainty": certainty_section.certainty, "strata": strata_section.strata}
NAMED |= {"change": result_sections.change, "reliability": result_sections.reliability}
VOID = {"meta", "br", "path", "use"}


class Read(HTMLParser):
    """The page's elements, its text, and the text of each section."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.sections: dict[str, str] = {}
        self._section = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
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
        text = " ".join(data.split()).replace(words.MINUS, "-")
        self.sections[self._section] = f"{self.sections.get(self._section, '')} {text}".strip()


def section(name: str, **other: Any) -> str:
    """The text of one section, which is all that is rendered: pictures take time."""
    return Read(render(facts(**other), [NAMED[name]])).sections[name]


@pytest.fixture(scope="module")
def page() -> str:
    return render(facts())


@pytest.fixture(scope="module")
def read(page: str) -> Read:
    return Read(page)


def test_names_and_titles_stay_text(page: str, read: Read) -> None:
    assert read.tags["script"] == 0
    assert EVIL not in page
    for where in ("short", "metrics", "change", "samples", "making"):
        assert EVIL in read.sections[where], where
    assert "Emma & <b>Ivanhoe</b> (5.0): +0.41" in read.sections["samples"]


def test_nothing_comes_from_elsewhere(page: str, read: Read) -> None:
    assert "http://" not in page
    assert "https://" not in page
    assert not read.tags.keys() & {"link", "img", "iframe", "object", "embed", "script", "base", "form"}
    assert {name for _, name, _ in read.attributes} & {"src", "srcset", "data", "action"} == set()
    targets = [value for _, name, value in read.attributes if name in ("href", "xlink:href")]
    assert targets
    assert all(str(target).startswith("#") for target in targets)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_what_is_referred_to_is_there_once(read: Read) -> None:
    ids = Counter(str(value) for _, name, value in read.attributes if name == "id")
    targets = {str(value)[1:] for _, name, value in read.attributes if name in ("href", "xlink:href")}
    assert targets <= ids.keys()
    assert [name for name, times in ids.items() if times > 1] == []


def test_pictures_take_the_pages_colours_and_can_be_read_out(page: str, read: Read) -> None:
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == read.tags["figure"] == read.tags["figcaption"] >= 15
    for picture in pictures:
        assert re.match(r'<svg viewBox="0 0 \d+(\.\d+)? \d+(\.\d+)?" role="img" aria-label="[^"]{30,}">', picture)
        assert "var(--ink)" in picture
        colours = set(re.findall(r"(?:fill|stroke): (#\w+)", picture)) - {"#ffffff"}
        assert colours == set()
    assert len(set(pictures)) == len(pictures)


def test_every_table_has_a_caption_and_heads(read: Read) -> None:
    assert read.tags["table"] == read.tags["caption"] >= 8
    assert {value for tag, name, value in read.attributes if (tag, name) == ("th", "scope")} == {"col", "row"}


def test_one_page_for_light_dark_wide_and_narrow(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert '<meta name="color-scheme" content="light dark">' in page
    assert 'name="viewport" content="width=device-width' in page


# ---- what it says


def test_the_title_says_what_was_evaluated_and_the_ids_stand_below() -> None:
    assert title(facts()) == "Evaluation: deconfounded probabilistic matrix factorization, 31 January 2026"
    assert title(facts(outcome="poisson", adjustment="none")).startswith("Evaluation: classical Poisson factorization,")
    assert ids(facts()) == f"Model 1a2b{EVIL}, run 20260131T000000-abcdef"
    assert words.kind_of_model("toy", "ours") == "ours toy matrix factorization"


def test_no_folder_of_the_machine_is_shown(page: str, read: Read) -> None:
    assert FOLDER not in page
    assert '"path": "\N{HORIZONTAL ELLIPSIS}/u.data"' in read.sections["making"]
    assert '"path": "out"' in read.sections["making"]
    assert '"titles_path": "out/titles.csv"' in read.sections["making"]
    assert "no previous run under out to start from" in read.sections["short"]


def test_results_come_first_and_doubts_stand_out(page: str, read: Read) -> None:
    assert list(read.sections)[1:4] == ["short", "metrics", "reliability"]
    notes = re.findall(r'<p class="note">(.*?)</p>', page)
    assert any("not settled" in note for note in notes)
    assert any("do not trust a_hat" in note for note in notes)


def test_one_bar_is_said_in_words_not_drawn() -> None:
    one_bar = [fit_sections.data, list_sections.coverage, *NAMED.values()]
    read = Read(render(likes(), one_bar))
    assert "All training ratings are 1." in read.sections["data"]
    assert "All 900 users have 16 to 31 training ratings." in read.sections["data"]
    assert "All 900 items have 16 to 31 lists (first 10 places) that they are in." in read.sections["coverage"]
    assert "Gamma is 0.250 for each of 900 users." in read.sections["gamma"]
    assert "No item gains or loses a place." in read.sections["change"]
    labels = [str(value) for tag, name, value in read.attributes if (tag, name) == ("svg", "aria-label")]
    assert not [label for label in labels if label.startswith(("Training ratings", "Activity", "Gamma", "Reliability"))]


def test_how_sure_the_lists_are(read: Read) -> None:
    said = read.sections["certainty"]
    assert "The 90 % interval of a recommended item is 0.60 wide on average, from -1.00 to 2.00" in said
    assert "changes the odds of choosing by a factor of 1.050; a quarter already by 1.020, three quarters by" in said
    assert "25 % of the places are extrapolations" in said
    assert "12.5 % of the users have rated" in said
    assert section("certainty", certainty="Not done.") == "How sure the lists are Not done."
    plain = facts().certainty
    assert isinstance(plain, CertaintyFacts)
    without = section("certainty", certainty=replace(plain, extrapolating=None, effective=None))
    assert "extrapolations" not in without
    assert "of the users have rated" not in without


def test_whom_the_model_serves(read: Read) -> None:
    said = read.sections["strata"]
    assert "Each is this model minus classical twin" in said
    assert "Of 9 differences 5 % or so would miss 0" in said
    assert "8 to 20 300 +0.030 0.020 to 0.040; better; n = 290" in said
    assert "21 to 69 300 -0.004 no interval; n = 1" in said
    assert "1 to 4 650 +0.200 0.100 to 0.300; better; n = 1,234" in said
    assert "5 to 400 650 \N{EN DASH} +0.000 -0.100 to 0.100; no difference shown; n = 4,321" in said
    assert section("strata", strata="Not done.") == "Whom it serves: by activity and by popularity Not done."


def test_intervals_with_0_inside_show_no_difference(read: Read) -> None:
    assert "no difference shown from classical twin" in read.sections["short"]
    assert "better than item mean" in read.sections["short"]
    table = read.sections["metrics"]
    assert "+0.001 -0.002 to 0.004; no difference shown" in table
    assert "+0.010 0.006 to 0.014; better" in table
    assert "-0.090 -0.100 to -0.080; better" in table  # of an error, less is better
    assert "-0.010 -0.012 to -0.008; worse" in table
    assert "+0.001 no interval" in table


@pytest.mark.parametrize(
    ("measure", "low", "high", "said"),
    [
        ("ndcg", 0.1, 0.2, words.BETTER),
        ("ndcg", -0.2, -0.1, words.WORSE),
        ("mse", 0.1, 0.2, words.WORSE),
        ("item_mae", -0.2, -0.1, words.BETTER),
        ("mse", -0.1, 0.1, words.NONE),
        ("ndcg", 0.0, 0.1, words.NONE),
        ("ndcg", np.nan, np.nan, words.UNKNOWN),
    ],
)
def test_verdicts(measure: str, low: float, high: float, said: str) -> None:
    assert words.verdict(measure, low, high) == said


def test_without_resamples_nothing_is_claimed() -> None:
    metrics = facts().metrics
    bare = estimates(("item mean", "ndcg", 0.01, np.nan, np.nan))
    changed = type(metrics)(metrics.estimates.assign(low=np.nan, high=np.nan), bare, "rel", 3.0, 0.95, 0)
    said = section("short", metrics=changed)
    assert "NDCG 0.900: without intervals not compared with item mean." in said
    assert "better" not in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([100.0, 50.0, 49.999], "3 iterations; settled, as the last relative change, 2.0e-05, is below tol = 0.0001"),
        ([100.0, 50.0], "2 iterations; not settled: the last relative change, 5.0e-01, is not below tol = 0.0001"),
        ([100.0], "1 iteration; with so few nothing can be said"),
    ],
)
def test_whether_a_fit_settled(values: list[float], said: str) -> None:
    assert said in settled(Stage("outcome", "J", False, values, 1e-4, 20))


def test_data_that_were_left_out_are_counted(read: Read) -> None:
    assert "25 test ratings of pairs that are in training too were dropped." in read.sections["data"]
    assert "1 test rating of users or items that a model does not know was left out" in read.sections["data"]
    assert "In training 5.9 % of all pairs" in read.sections["data"]


def test_the_check_and_what_it_is_of(read: Read) -> None:
    assert "Far from the middle: do not trust a_hat." in read.sections["check"]
    assert "fitted anew" in read.sections["check"]
    assert "why it was not done" in section("check", check="why it was not done")


def test_verdicts_of_the_audit_stand_beside_their_limits(read: Read) -> None:
    said = read.sections["audit"]
    assert f"max_churn 0.125 0.500 kept a note on {EVIL}" in said
    assert "floor 0.080 0.070 to 0.090 0.100 not kept --force catalogue_ndcg@10 is 0.08" in said
    assert "On ratings held out of that fit NDCG@10 over the catalogue" in said
    assert "this model 0.080 0.070 to 0.090 last model 0.090" in said
    assert "Published beyond a limit (audit.floor, --force): catalogue_ndcg@10 is 0.08." in read.sections["short"]
    assert "drew no limits" in section("audit", audit=AuditFacts([]))
    assert "no audit is known" in section("audit", audit="no audit is known")
    assert "Published beyond" not in section("short", audit="no audit is known")


def test_gamma_of_each_user_of_all_and_of_none(read: Read) -> None:
    assert "30 users (15.8 %) below 0" in read.sections["gamma"]
    assert "One gamma for all users: 0.250." in section("gamma", gamma=GammaFacts(None, 0.25))
    assert "no gamma: it adjusts for nothing" in section("gamma", adjustment="none", gamma=GammaFacts(None, None))
    assert "inverse propensities instead" in section("gamma", adjustment="ipw", gamma=GammaFacts(None, None))


def test_changes_of_the_ranking(read: Read) -> None:
    said = read.sections["change"]
    assert "25 % of the items in the first 10 places of this model are not in those of classical twin" in said
    assert "100 users (11.1 %) keep all of their items" in said
    assert f"{EVIL} 3 60 +57 12" in said
    assert "8 80 2 -78 300" in said  # without a title it goes by its id
    assert "nothing to compare" in section("change", change="there is nothing to compare")


def test_other_outcomes_are_not_taken_for_ratings() -> None:
    assert "not to be read as ratings" in section("reliability", outcome="weighted", unrated_are_zeros=True)
    assert "not to be read as ratings" not in section("reliability")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (-0.5, f"{words.MINUS}0.500"),
        (123.456, "123.5"),
        (1234567.8, "1,234,568"),
        (float("nan"), words.DASH),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert words.number(value) == text
