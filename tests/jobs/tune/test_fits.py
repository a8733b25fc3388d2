"""Which way to fit, and how often stage 1 is fitted when trials follow each other."""

from typing import Any

import pytest

from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.tune import fits
from dcrec_spark.jobs.tune.candidates import draw
from dcrec_spark.jobs.tune.entry import Outcome
from dcrec_spark.jobs.tune.fits import SMALL, OneByOne, small
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from tests.jobs.tune.searching import config, outcome

SPACE = ["space.exposure.rank=[1,2]", "space.outcome.rank=[1,2,3]"]


class Ratings:
    """Of the training part only the columns matter here."""

    columns = ("user_id", "item_id", "rating")


class Model(PoissonFactorizationModel):
    """Notes that it is let go of."""

    def __init__(self, rank: int, log: list[str]) -> None:
        self.rank, self.log = rank, log

    def release(self) -> None:
        self.log.append(f"release {self.rank}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is fitted, and let go of, in its order; stage 1 of rank 9 fails."""
    said: list[str] = []

    class Exposure:
        def __init__(self, **params: Any) -> None:
            self.rank = params["rank"]

        def fit(self, _ratings: Ratings) -> Model:
            said.append(f"exposure {self.rank}")
            if self.rank == 9:
                raise FitError("no exposure model")
            return Model(self.rank, said)

    def judged(_self: OneByOne, estimator: tuple[int, Model | None]) -> Outcome:
        rank, model = estimator
        said.append(f"outcome {rank} on {model.rank if model else None}")
        return outcome(rank)

    monkeypatch.setattr(fits, "PoissonFactorization", Exposure)
    monkeypatch.setattr(fits, "DeconfoundedMF", lambda **params: (params["rank"], params["exposureModel"]))
    monkeypatch.setattr(OneByOne, "_measured", judged)
    return said


def one_by_one(*overrides: str) -> OneByOne:
    return OneByOne(config(*overrides), fits.Split(Ratings(), Ratings()))  # type: ignore[arg-type]


def test_stage_one_is_fitted_once_and_let_go_of_when_nobody_needs_it(log: list[str]) -> None:
    candidates = draw(config(*SPACE))
    found = list(one_by_one(*SPACE).run([*candidates[1::2], *candidates[::2]], last=True))
    assert {c.number for c, _ in found} == set(range(6))
    assert [word for word in log if not word.startswith("outcome")] == [
        "exposure 1",
        "release 1",
        "exposure 2",
        "release 2",
    ]
    assert log.index("release 1") == 4
    assert {word for word in log if "outcome" in word} == {f"outcome {o} on {e}" for o in (1, 2, 3) for e in (1, 2)}


def test_stage_one_is_kept_from_round_to_round(log: list[str]) -> None:
    candidates, way = draw(config(*SPACE)), one_by_one(*SPACE)
    list(way.run(candidates, last=False))
    del log[:]
    list(way.run([c for c in candidates if c.exposure and c.exposure.rank == 2], last=False))
    assert log == ["release 1", *(f"outcome {rank} on 2" for rank in (1, 2, 3))]
    way.close()
    assert log[-1] == "release 2"


def test_a_stage_one_that_fails_is_tried_once_and_fails_its_trials(log: list[str]) -> None:
    space = ["space.exposure.rank=[9,1]", "space.outcome.rank=[1,2]"]
    found = [
        str(o) if isinstance(o, FitError) else "done" for _, o in one_by_one(*space).run(draw(config(*space)), True)
    ]
    assert sorted(found) == ["done", "done", "no exposure model", "no exposure model"]
    assert log.count("exposure 9") == 1


def test_a_classical_candidate_has_no_stage_one(log: list[str]) -> None:
    space = ["space.outcome.adjustment=[none]"]
    list(one_by_one(*space).run(draw(config(*space)), last=True))
    assert log == ["outcome 10 on None"]


def test_the_number_of_ratings_and_what_the_input_has_decide_how_to_fit() -> None:
    columns = ["user_id", "item_id", "rating"]
    asked = config(*SPACE)
    plain = draw(asked)
    assert small(asked, plain, columns, SMALL)
    assert not small(asked, plain, columns, SMALL + 1)
    assert small(config("side_by_side=true"), plain, columns, SMALL + 1)
    assert not small(config("side_by_side=false"), plain, columns, 10)
    weighted = draw(config("space.outcome.adjustment=[ipw]"))
    assert small(asked, weighted, columns, 10)
    assert not small(asked, weighted, [*columns, "propensity"], 10)
    with pytest.raises(ConfigError, match=r"found true, expected auto or false for propensities that are given"):
        small(config("side_by_side=true"), weighted, [*columns, "propensity"], 10)
