"""What every estimator of the package promises to those who know pyspark.ml.

A configuration of an estimator is a class in test_contract.py::

    class TestClassical(OutcomeContract, world=NUMBERS, adjustment="none"):
        ...
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pyspark.ml import Estimator, Model, Pipeline, PipelineModel
from pyspark.ml.param import Params
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.models.fitting.facts import OutcomeFacts
from tests.frames import frame_of
from tests.models.world import NAMES, World, by_id, exposure, outcome
from tests.problems import assert_same


class EstimatorContract:
    """``make(**settings)`` is the estimator, fitted on ``world``; ``output`` names the Param of what it adds.

    ``cold(value)``: whether that is what an unknown id gets. ``blocks``: whether the loaded estimator fits in blocks
    what the saved one fits in one process; else both do in one process.
    """

    make: ClassVar[Callable[..., Any]]
    output: ClassVar[str]
    history: ClassVar[str]
    cold: ClassVar[Callable[[Any], bool]]
    world: ClassVar[World]
    blocks: ClassVar[bool]
    settings: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, world: World = NAMES, blocks: bool = True, **settings: Any) -> None:
        cls.world, cls.blocks, cls.settings = world, blocks, settings

    @classmethod
    def new(cls) -> Any:
        return cls.make(maxIter=2, **cls.settings)

    @classmethod
    def factors(cls, model: Any) -> dict[str, DataFrame]:
        """Everything that is known of each id."""
        return {"users": model.userFactors, "items": model.itemFactors}

    @classmethod
    def tables(cls, model: Any, pairs: DataFrame) -> dict[str, DataFrame]:
        """All that the model says."""
        return {"answers": model.transform(pairs), **cls.factors(model)}

    @pytest.fixture
    def estimator(self) -> Any:
        return self.new()

    @pytest.fixture(scope="class")
    @classmethod
    def ratings(cls, spark: SparkSession) -> DataFrame:
        return cls.world.frame(spark)

    @pytest.fixture(scope="class")
    @classmethod
    def pairs(cls, spark: SparkSession) -> DataFrame:
        """All pairs of known ids, and three with a strange user, a strange item, and none."""
        users, items = cls.world.users, cls.world.items
        strange = "stranger" if isinstance(users[0], str) else 5
        rows = [(u, i, True) for u in users for i in items]
        rows += [(strange, items[0], False), (users[0], strange * 2, False), (None, items[0], False)]
        user_type, item_type = cls.world.id_types
        return frame_of(spark, rows, f"user {user_type}, item {item_type}, known boolean")

    @pytest.fixture(scope="class")
    @classmethod
    def trainer(cls, spark: SparkSession) -> Any:
        """The estimator of the model; no test changes it."""
        return cls.new()

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, trainer: Any, ratings: DataFrame) -> Iterator[Any]:
        (fitted,) = trainer.fit(ratings, [{trainer.maxIter: 1}])
        yield fitted
        fitted.release()

    @pytest.fixture(scope="class")
    @classmethod
    def said(cls, model: Any, pairs: DataFrame) -> dict[str, Any]:
        """What the fitted model says, to the last bit."""
        return exactly(cls.tables(model, pairs))

    # Fit

    def test_a_list_of_maps_gives_a_list_of_models(self, trainer: Any, model: Any) -> None:
        """Here one, fitted with one iteration, and the estimator has two as before."""
        assert len(getattr(model, self.history)) == 1
        assert (model.getOrDefault("maxIter"), trainer.getOrDefault("maxIter")) == (1, 2)
        assert values_of(trainer) == values_of(self.new())

    def test_a_model_has_the_params_and_the_uid_of_its_estimator(
        self, trainer: Any, model: Any, pairs: DataFrame
    ) -> None:
        """As those of MLlib, so that a map made for the estimator holds for the model too."""
        mine, theirs = values_of(model), values_of(trainer) | {"maxIter": 1}
        assert theirs.keys() - mine.keys() <= {"exposureModel"}  # what came of it is the model's own
        assert mine == {name: theirs[name] for name in mine}
        assert model.uid == trainer.uid
        assert model.transform(pairs, {trainer.getParam(self.output): "told"}).columns[-1] == "told"

    def test_ids_come_back_as_they_went_in(self, model: Any) -> None:
        types = {"string": "string", "int": "int", "long": "bigint"}
        for side, ids, sql_type in zip(
            ("users", "items"), (self.world.users, self.world.items), self.world.id_types, strict=True
        ):
            frame = self.factors(model)[side]
            assert frame.schema["id"].dataType.simpleString() == types[sql_type]
            assert by_id(frame)["id"] == ids

    def test_known_pairs_have_a_number_and_cold_ids_none(self, model: Any, pairs: DataFrame) -> None:
        rows = model.transform(pairs).collect()
        assert len(rows) == len(self.world.users) * len(self.world.items) + 3
        for row in rows:
            value = row[model.getOrDefault(self.output)]
            assert np.isfinite(value) if row.known else self.cold(value), row

    # Pipelines and persistence

    def test_a_loaded_estimator_is_the_saved_one(self, estimator: Any, tmp_path: Path) -> None:
        estimator.write().save(f"{tmp_path}/estimator")
        loaded = type(estimator).read().load(f"{tmp_path}/estimator")
        assert (loaded.uid, values_of(loaded)) == (estimator.uid, values_of(estimator))
        assert [p.name for p in loaded._paramMap] == [p.name for p in estimator._paramMap]

    def test_a_loaded_pipeline_fits_the_same_model_laid_out_another_way(
        self, estimator: Any, model: Any, ratings: DataFrame, pairs: DataFrame, tmp_path: Path
    ) -> None:
        """Told so by a map. Where it fits in blocks, neither they nor their exchange change more than the rounding."""
        exchange = "blocks" if self.blocks else "local"
        Pipeline(stages=[estimator]).save(f"{tmp_path}/pipeline")
        layout = {estimator.numBlocks: 3, estimator.exchange: exchange}
        output = {estimator.getParam(self.output): "told"}
        fitted = Pipeline.load(f"{tmp_path}/pipeline").fit(ratings, {estimator.maxIter: 1, **layout, **output})
        (stage,) = fitted.stages
        assert [stage.getOrDefault(param.name) for param in layout] == [3, exchange]
        for name, frame in self.factors(stage).items():
            assert_same_rows(by_id(frame), by_id(self.factors(model)[name]), 1e-8)
        assert_same(known(fitted.transform(pairs)), known(model.transform(pairs)), 1e-8)
        stage.release()

    def test_a_loaded_model_says_the_same_to_the_last_bit(
        self, model: Any, pairs: DataFrame, said: dict[str, Any], tmp_path: Path
    ) -> None:
        """Saved in a pipeline's model and found there by the name of its class."""
        PipelineModel([model]).write().overwrite().save(f"{tmp_path}/pipeline")
        (loaded,) = PipelineModel.load(f"{tmp_path}/pipeline").stages
        assert type(loaded) is type(model)
        assert exactly(self.tables(loaded, pairs)) == said
        assert (loaded.uid, values_of(loaded), facts_of(loaded)) == (model.uid, values_of(model), facts_of(model))
        loaded.release()


class ExposureContract(EstimatorContract):
    """Estimators of who looks at what."""

    make, output, history = staticmethod(exposure), "exposureCol", "elboHistory"
    cold = staticmethod(lambda value: value is None)


class OutcomeContract(EstimatorContract):
    """Estimators of what they think of it; with an exposure model of their own it is fitted in one iteration."""

    make, output, history = staticmethod(outcome), "predictionCol", "objectiveHistory"
    cold = staticmethod(np.isnan)

    @classmethod
    def new(cls) -> Any:
        estimator = super().new()
        if estimator.getOrDefault("adjustment") == "deconfounded":
            estimator.set(estimator.exposureModel, exposure(maxIter=1))
        return estimator

    @classmethod
    def factors(cls, model: Any) -> dict[str, DataFrame]:
        return dict(zip(("users", "items"), model.factorTables(), strict=True))

    @classmethod
    def tables(cls, model: Any, pairs: DataFrame) -> dict[str, DataFrame]:
        return {
            **super().tables(model, pairs),
            "parts": model.predictParts(pairs),
            "ranking": model.recommendationTable(3, pairs.limit(4)),
        }


def values_of(instance: Params) -> dict[str, Any]:
    """Param by Param; what is inside an estimator or model that is a value, too."""
    values = {param.name: instance.getOrDefault(param) for param in instance.params}
    return {name: (type(v), values_of(v)) if isinstance(v, Estimator | Model) else v for name, v in values.items()}


def facts_of(model: Any) -> dict[str, Any]:
    """Its numbers and histories."""
    public = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    return {name: value for name, value in public.items() if isinstance(value, float | int | list | OutcomeFacts)}


def exactly(tables: dict[str, DataFrame]) -> dict[str, list[str]]:
    """The rows as text that tells each bit, in an order of their own."""
    return {name: sorted(repr(row) for row in table.collect()) for name, table in tables.items()}


def known(answers: DataFrame) -> Any:
    """The numbers of the known pairs, in the order of their ids; they are in the last column."""
    rows = answers.where("known").orderBy("user", "item").collect()
    return np.array([row[-1] for row in rows])


def assert_same_rows(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if name == "id" or values.dtype == object:  # null where there is no exposure model
            assert list(found[name]) == list(values)
        else:
            assert_same(found[name], values, tolerance)
