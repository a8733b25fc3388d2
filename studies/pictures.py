"""Pictures of MovieLens 100K for the documentation: confounding, and two models' lists for one user.

python -m studies.pictures --data FOLDER --output docs/img
"""

from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, with_titles
from dcrec_spark.plots import plot_confounding, plot_lists, plot_popularity
from studies.drawing import save_drawing

_LENGTH = 10


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, path_type=Path), help="Folder with ml-100k.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of the pictures.")
def draw(data: Path, output: Path) -> None:
    """Fit the default model and one without the confounder, and draw both."""
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    schema = "user INT, item INT, rating DOUBLE, time LONG"
    ratings = spark.read.csv(str(data / "ml-100k" / "u.data"), sep="\t", schema=schema).cache()
    fields = spark.read.csv(str(data / "ml-100k" / "u.item"), sep="|", encoding="iso-8859-1")
    titles = fields.select(F.col("_c0").cast("int").alias("item_id"), F.col("_c1").alias("title"))
    model = DeconfoundedMF(seed=1).fit(ratings)
    models = {
        "without the confounder": DeconfoundedMF(adjustment="none", seed=1).fit(ratings),
        "with it: the default": model,
    }
    lists = {name: of.recommendationTable(_LENGTH, seen=ratings) for name, of in models.items()}
    user = _usual_user(*lists.values())
    click.echo(f"lists of user {user}")
    pictures = {
        "confounding": plot_confounding(model, ratings),
        "lists": plot_lists({name: _scores_of(table, user, titles) for name, table in lists.items()}),
        "popularity": plot_popularity(lists, ratings),
    }
    for name, figure in pictures.items():
        save_drawing(figure, output / f"{name}.svg")


def _usual_user(one: DataFrame, other: DataFrame) -> int:
    """Return the first user whose two lists share about as many items as the median user's do."""
    shared = one.join(other, ["user_id", "item_id"]).groupBy("user_id").count()
    median = shared.agg(F.percentile("count", 0.5).alias("median"))
    usual = shared.crossJoin(median).orderBy(F.abs(F.col("count") - F.col("median")), "user_id")
    return int(usual.collect()[0].user_id)


def _scores_of(lists: DataFrame, user: int, titles: DataFrame) -> dict[str, float]:
    rows = with_titles(lists.where(F.col("user_id") == user), titles).orderBy("rank").collect()
    return {row.title: row.score for row in rows}


if __name__ == "__main__":
    draw()
