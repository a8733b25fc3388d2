"""Limits that a run has to keep to be published."""

from typing import Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import NonNegativeReal, Part, Positive, Share


class AuditConfig(Section):
    """Limits that a run has to keep; beyond one the tables of before stay, and the job ends with 4."""

    max_churn: Share | None = Field(
        default=None,
        description="places with another item than in the run before, as a share of the lists of users of both runs; "
        "null: no limit",
    )
    min_coverage: Share | None = Field(
        default=None, description="share of the items on offer that are in some list, at least; null: no limit"
    )
    max_score_shift: NonNegativeReal | None = Field(
        default=None,
        description="how far the mean score may be from that of the run before, in standard deviations of its scores; "
        "null: no limit",
    )
    max_short_lists: Share | None = Field(
        default=None, description="share of the lists that are shorter than recommend.top_n; null: no limit"
    )
    force: bool = Field(
        default=False,
        description="whether to publish beyond the limits all the same, which the record says; --force sets it. A "
        "table that is not whole is never published",
    )


class RetrainAuditConfig(AuditConfig):
    """Limits that a run has to keep; beyond one the tables of before stay, and the job ends with 4, or 3 for volume."""

    max_volume_fall: Share | None = Field(
        default=None,
        description="how many fewer ratings than in the run before are accepted, as a share of those; beyond it the "
        "job ends with 3 before anything is fitted; null: no limit",
    )
    held_out_share: Part | None = Field(
        default=None,
        description="share of the ratings that no fit is given, the same pairs every night, by which models are "
        "compared; null: no comparison",
    )
    metric: Literal["ndcg", "recall", "precision", "map"] = Field(
        default="ndcg", description="what lists from the whole catalogue are compared by, on the held-out ratings"
    )
    k: Positive = Field(default=10, description="places of the lists that are compared")
    relevant_from: NonNegativeReal = Field(
        default=3.0, description="a held-out rating from here on makes an item relevant"
    )
    max_loss: Share | None = Field(
        default=0.1,
        description="how far below the last published model the metric may be, as a share of that model's; null: no "
        "limit",
    )
    max_below_popularity: Share | None = Field(
        default=0.0,
        description="how far below the list of the most rated items, as a share of its metric; null: no limit",
    )
    floor: NonNegativeReal | None = Field(default=None, description="least value of the metric; null: none")


class WithAudit(Section):
    """What jobs have whose lists are audited."""

    audit: AuditConfig = AuditConfig()
