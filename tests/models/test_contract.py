"""The contract of pyspark.ml, for one configuration of each kind of state that a model has.

Params are tested once a class, in tests/models/test_params.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.ml import Estimator, Model, PipelineModel
from pyspark.ml.param import Params
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.models.fitting.facts import OutcomeFacts
from tests.frames import frame_of
from tests.models.data_sets import NAMES, NUMBERS, RATED, DataSet, by_id, exposure, outcome


class Configuration(NamedTuple):
    """An estimator, the ratings that it is fitted to, and the names of its Param of output and of its history."""

    make: Callable[[], Any]
    data: DataSet
    output: str
    history: str


CONFIGURATIONS = {
    "exposure counts": Configuration(lambda: exposure(countCol="count"), NUMBERS, "exposureCol", "elboHistory"),
    "poisson": Configuration(
        lambda: outcome(outcome="poisson", confounderWeight="global", exposureModel=exposure(maxIter=1)),
        *(NUMBERS, "predictionCol", "objectiveHistory"),
    ),
    "all terms": Configuration(
        lambda: outcome(**{**RATED, "maxIter": 2}, exposureModel=exposure(maxIter=1)),
        *(NAMES, "predictionCol", "objectiveHistory"),
    ),
}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def of(request: pytest.FixtureRequest) -> Configuration:
    return CONFIGURATIONS[request.param]


@pytest.fixture(scope="module")
def estimator(spark: SparkSession, of: Configuration) -> Any:
    return of.make()


@pytest.fixture(scope="module")
def model(spark: SparkSession, of: Configuration, estimator: Any) -> Any:
    (fitted,) = estimator.fit(of.data.frame(spark), [{estimator.maxIter: 1}])
    return fitted


@pytest.fixture(scope="module")
def pairs(spark: SparkSession, of: Configuration) -> DataFrame:
    """All pairs of known ids, and three with a strange user, a strange item, and none."""
    users, items = of.data.users, of.data.items
    strange = "stranger" if isinstance(users[0], str) else 5
    rows = [(u, i, True) for u in users for i in items]
    rows += [(strange, items[0], False), (users[0], strange * 2, False), (None, items[0], False)]
    user_type, item_type = of.data.id_types
    return frame_of(spark, rows, f"user {user_type}, item {item_type}, known boolean")


def factors_of(model: Any) -> dict[str, DataFrame]:
    tables = model.factorTables() if hasattr(model, "factorTables") else (model.userFactors, model.itemFactors)
    return dict(zip(("users", "items"), tables, strict=True))


def answers_of(model: Any, pairs: DataFrame) -> dict[str, list[str]]:
    """All that a model says, each row as text that tells each bit, in an order of its own."""
    tables = {"answers": model.transform(pairs), **factors_of(model)}
    if hasattr(model, "predictParts"):
        tables |= {"parts": model.predictParts(pairs), "ranking": model.recommendationTable(3, pairs.limit(4))}
    return {name: sorted(repr(row) for row in table.collect()) for name, table in tables.items()}


def values_of(instance: Params) -> dict[str, Any]:
    """Param by Param; what is inside an estimator or model that is a value, too."""
    values = {param.name: instance.getOrDefault(param) for param in instance.params}
    return {name: (type(v), values_of(v)) if isinstance(v, Estimator | Model) else v for name, v in values.items()}


def facts_of(model: Any) -> dict[str, Any]:
    public = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    return {name: value for name, value in public.items() if isinstance(value, float | int | list | OutcomeFacts)}


def test_a_list_of_maps_gives_models_with_their_estimators_params(
    of: Configuration, estimator: Any, model: Any, pairs: DataFrame
) -> None:
    """As those of MLlib, so that a map made for the estimator holds for the model too."""
    assert len(getattr(model, of.history)) == 1
    assert estimator.getOrDefault("maxIter") == 2
    mine, theirs = values_of(model), values_of(estimator) | {"maxIter": 1}
    # What came of these is the model's own.
    assert theirs.keys() - mine.keys() <= {"exposureModel", "userFeatures", "itemFeatures"}
    assert mine == {name: theirs[name] for name in mine}
    assert model.uid == estimator.uid
    assert model.transform(pairs, {estimator.getParam(of.output): "told"}).columns[-1] == "told"


def test_ids_keep_their_type_and_cold_ones_have_no_number(of: Configuration, model: Any, pairs: DataFrame) -> None:
    types = {"string": "string", "int": "int", "long": "bigint"}
    for frame, ids, kind in zip(
        factors_of(model).values(), (of.data.users, of.data.items), of.data.id_types, strict=True
    ):
        assert frame.schema["id"].dataType.simpleString() == types[kind]
        assert by_id(frame)["id"] == ids
    rows = model.transform(pairs).collect()
    assert len(rows) == of.data.counts.size + 3
    for row in rows:
        value = row[model.getOrDefault(of.output)]
        assert np.isfinite(value) if row.known else value is None or np.isnan(value), row


def test_a_loaded_estimator_is_the_saved_one(estimator: Any, tmp_path: Path) -> None:
    estimator.write().save(f"{tmp_path}/estimator")
    loaded = type(estimator).read().load(f"{tmp_path}/estimator")
    assert (loaded.uid, values_of(loaded)) == (estimator.uid, values_of(estimator))
    assert [p.name for p in loaded._paramMap] == [p.name for p in estimator._paramMap]


def test_a_loaded_model_says_the_same_to_the_last_bit(model: Any, pairs: DataFrame, tmp_path: Path) -> None:
    """Saved in a pipeline's model and found there by the name of its class."""
    PipelineModel([model]).write().overwrite().save(f"{tmp_path}/pipeline")
    (loaded,) = PipelineModel.load(f"{tmp_path}/pipeline").stages
    assert type(loaded) is type(model)
    assert answers_of(loaded, pairs) == answers_of(model, pairs)
    assert (loaded.uid, values_of(loaded), facts_of(loaded)) == (model.uid, values_of(model), facts_of(model))
    loaded.release()
