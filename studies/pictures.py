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

_USER, _LENGTH = 42, 10


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
    pictures = {
        "confounding": plot_confounding(model, ratings),
        "lists": plot_lists({name: _scores_of(table, titles) for name, table in lists.items()}),
        "popularity": plot_popularity(lists, ratings),
    }
    for name, figure in pictures.items():
        save_drawing(figure, output / f"{name}.svg")


def _scores_of(lists: DataFrame, titles: DataFrame) -> dict[str, float]:
    rows = with_titles(lists.where(F.col("user_id") == _USER), titles).orderBy("rank").collect()
    return {row.title: row.score for row in rows}


if __name__ == "__main__":
    draw()
