"""The jobs that ``dcrec`` offers: their commands, what they are for, and where they are."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dcrec_spark.jobs.job import Job


@dataclass(frozen=True)
class JobEntry:
    """One job of the command line.

    Attributes
    ----------
    command : its name as a subcommand.
    place : ``module:class``; imported when the job is run.
    purpose : the heading under which the help lists it.
    summary : one line.
    reads, writes : what it takes and leaves, by the names of settings and tables.
    examples : command lines.
    """

    command: str
    place: str
    purpose: str
    summary: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def help_text(self) -> str:
        """What ``--help`` says of the job."""
        blocks = {"Reads": self.reads, "Publishes": self.writes, "Examples": self.examples}
        parts = ["\b\n" + "\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in blocks.items()]
        return "\n\n".join([self.summary, *parts])

    def load(self) -> Job[Any, Any, Any]:
        """Import the job, and make it.

        Raises
        ------
        MissingExtraError : a package that only this job needs is not installed.
        """
        module, _, name = self.place.partition(":")
        job: Job[Any, Any, Any] = getattr(import_module(module), name)()
        return job


JOBS = (
    JobEntry(
        command="retrain",
        place="dcrec_spark.jobs.retrain:Retrain",
        purpose="Recommend",
        summary="Fit a model to ratings, and publish what it recommends.",
        reads=(
            "input              ratings",
            "model.warm_start   the model that the fit starts from, if any",
            "recommend          the catalogue of tonight, pairs to exclude",
        ),
        writes=(
            "recommendations, user_factors, item_factors, rejects, runs",
            "user_overlap, item_overlap, fallback, similar_items, user_vectors, item_vectors, changes: where recommend "
            "asks for them",
            "model/             for recommend, fold-in and evaluate",
        ),
        examples=(
            "dcrec retrain --set input.path=ratings.parquet --set output.path=tables",
            "dcrec retrain --config nightly.yaml --set outcome.rank=50 --dry-run",
        ),
    ),
    JobEntry(
        command="recommend",
        place="dcrec_spark.jobs.recommend:Recommend",
        purpose="Recommend",
        summary="Recommend with a saved model to all of its users, or to a list.",
        reads=(
            "model.path         a model that retrain has published",
            "input              ratings whose items are left out (recommend.exclude_seen)",
            "recommend.users    the users to serve; null: all",
        ),
        writes=(
            "recommendations, rejects, runs",
            "user_overlap, item_overlap, fallback, similar_items, user_vectors, item_vectors, changes: where recommend "
            "asks for them",
        ),
        examples=("dcrec recommend --config mine.yaml --set model.path=tables --set output.path=today",),
    ),
    JobEntry(
        command="fold-in",
        place="dcrec_spark.jobs.fold_in:FoldIn",
        purpose="Recommend",
        summary="Recommend to new users by their ratings, without fitting again.",
        reads=("model.path         a model that retrain has published", "input              the new users' ratings"),
        writes=("recommendations, user_factors, rejects, runs",),
        examples=("dcrec fold-in --set model.path=tables --set input.path=new.parquet --set output.path=new",),
    ),
    JobEntry(
        command="evaluate",
        place="dcrec_spark.jobs.evaluate.job:Evaluate",
        purpose="Judge and choose",
        summary="Measure a saved model on held-out ratings, and write a report.",
        reads=(
            "model.path         a model that retrain has published",
            "input              the ratings that it was fitted to",
            "evaluation         the held-out ratings (test_path), titles, a second model",
        ),
        writes=("metrics, rejects, runs", "report/report.html"),
        examples=("dcrec evaluate --config mine.yaml --set model.path=tables --set evaluation.test_path=test.parquet",),
    ),
    JobEntry(
        command="tune",
        place="dcrec_spark.jobs.tune.job:Tune",
        purpose="Judge and choose",
        summary="Search the settings that rank held-out ratings best.",
        reads=("input              ratings, of which some are held out", "tuning             what is tried, and how"),
        writes=(
            "trials, rejects, runs",
            "best/best.yaml     the chosen settings, for dcrec retrain --config",
            "An interrupted search goes on where it was when it is run again.",
        ),
        examples=("dcrec tune --config conf/tune.yaml --set input.path=ratings.parquet --set output.path=search",),
    ),
)
