"""A program that fits, saves, loads and asks models, for sessions of other kinds and versions."""

from tests.spark.standalone import ROOT, finished, plain_environment

# Fits and saves models, or loads what was saved, and prints what they answer.
MODELS = """
import json, os, sys
from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, build_session, evaluate
step, folder, *exchanges = sys.argv[1:]
spark = build_session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
if "SPARK_REMOTE" not in os.environ:
    spark.sparkContext.setCheckpointDir(folder + "/checkpoints")
pairs = [(f"user {u}", i, float((u * i) % 5 + 1)) for u in range(30) for i in range(20) if (u + i) % 3]
ratings = spark.createDataFrame(pairs, "user string, item long, rating double")
new = spark.createDataFrame([("new", 1, 5.0), ("new", 2, 1.0)], ratings.schema)

def fit(exchange):
    where = {"exchange": exchange, "rank": 2, "maxIter": 3, "seed": 1, "numBlocks": 3, "precision": "float64"}
    return DeconfoundedMF(exposureModel=PoissonFactorization(**where), **where).fit(ratings)

def answers_of(model):
    predicted = model.transform(ratings)
    few = ratings.limit(5)
    return {
        "lists": sorted(map(list, model.recommendationTable(3).collect())),
        "predictions": sorted([row.user, row.item, row.prediction] for row in predicted.collect()),
        "all users": model.recommendForAllUsers(3).count(),
        "similar": sorted(map(list, model.similarItems(2).collect())),
        "explain": sorted(str(row) for row in model.explain(few, ratings).collect()),
        "intervals": sorted(str(row) for row in model.predictIntervals(few, ratings).collect()),
        "fold-in": [row.id for row in model.foldInUsers(new).collect()],
        "evaluate": str(evaluate(predicted, catalogue_size=20)),
    }

answers = {"session": type(spark).__module__}
for exchange in exchanges:
    if step == "save":
        fit(exchange).write().save(f"{folder}/{exchange}")
    answers[exchange] = answers_of(DeconfoundedMFModel.load(f"{folder}/{exchange}"))
print(json.dumps(answers))
"""


def run_python(python: str, program: str, *arguments: object, **environment: str) -> str:
    run = finished(python, "-c", program, *arguments, env={**plain_environment(), **environment}, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
