"""Settings of ``jobs/evaluate.py``: a saved model + held-out ratings -> metrics and a report."""

from typing import Annotated, ClassVar

from pydantic import Field

from dcrec_spark.config.sections import ListLengthConfig, MetricsConfig, ServingConfig
from dcrec_spark.config.types import Natural, Place, Positive


class EvaluationConfig(MetricsConfig):
    """What a saved model is judged by, and what goes into the report; input is what the model was fitted to."""

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
        description="a second saved model, such as the classical one; null: the model without its confounder part",
    )
    cuts: Annotated[tuple[Positive, ...], Field(min_length=1)] = Field(
        default=(5, 10), description="lengths of the lists that are judged; changes are shown for the longest"
    )
    strata: Natural = Field(
        default=3,
        description="groups of users by their training ratings, and of items, at most, in which the model is compared "
        "with the other one; 0: none",
    )
    predictive_check: bool = Field(
        default=True,
        description="whether to check the exposure model, which fits it once more with a fifth of the exposures held "
        "out",
    )
    certainty: bool = Field(
        default=True,
        description="whether the report says how sure the lists are, which ranks and lays the ratings out once more",
    )
    sample_users: Natural = Field(default=3, description="users whose recommendations the report shows")
    reasons: Natural = Field(default=3, description="ratings named as reasons of each recommendation shown; 0: none")


class EvaluateConfig(ServingConfig):
    """Everything that jobs/evaluate.py can be given."""

    job: ClassVar[str] = "evaluate"

    recommend: ListLengthConfig = ListLengthConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
