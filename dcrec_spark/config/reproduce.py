"""Settings of ``jobs/reproduce.py``: the paper's tables and figures, beside ours."""

from typing import ClassVar, Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.shared import JobConfig
from dcrec_spark.config.types import Text


class StudiesConfig(Section):
    """Which of the paper's studies run, on which data sets; page, tables and pictures go to output.path."""

    data: Text | None = Field(
        default=None, description="the folder that holds coat/, ml-100k/, ml-1m/, and yahoo-r3/ where you have it"
    )
    profile: Literal["quick", "full"] = Field(default="quick", description="quick: minutes; full: hours")
    only: tuple[Text, ...] = Field(
        default=(), description="units to run, by how their names begin, such as [coat, plain-5]; none: all"
    )
    work: Text | None = Field(
        default=None, description="where finished units are kept, to go on from; null: output/studies/<profile>"
    )


class ReproduceConfig(JobConfig):
    """Everything that jobs/reproduce.py can be given."""

    job: ClassVar[str] = "reproduce"

    studies: StudiesConfig = StudiesConfig()
