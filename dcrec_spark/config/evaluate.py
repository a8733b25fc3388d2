"""Settings of ``jobs/evaluate.py``: a saved model + held-out ratings -> metrics and a report."""

from typing import ClassVar

from pydantic import Field

from dcrec_spark.config.sections import ListLengthConfig, MetricsConfig, ServingConfig
from dcrec_spark.config.types import Place


class EvaluationConfig(MetricsConfig):
    """Held-out ratings, and what a saved model is compared with; input is what the model was fitted to."""

    test_path: Place | None = Field(
        default=None,
        description="held-out ratings, in the format and with the columns of input; a table's name for table and jdbc",
    )
    titles_path: Place | None = Field(
        default=None,
        description="names of the items: u.item, movies.dat, or CSV or Parquet with the columns item and title",
    )
    compare_with: Place | None = Field(
        default=None,
        description="a second saved model; null: a model with the same settings and no confounder is fitted",
    )


class EvaluateConfig(ServingConfig):
    """Everything that jobs/evaluate.py can be given."""

    job: ClassVar[str] = "evaluate"

    recommend: ListLengthConfig = ListLengthConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
