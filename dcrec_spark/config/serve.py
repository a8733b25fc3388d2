"""Settings of ``jobs/recommend.py`` and ``jobs/fold_in.py``, which rank by a saved model."""

from typing import ClassVar

from pydantic import Field

from dcrec_spark.config.audit import WithAudit
from dcrec_spark.config.shared import ListsConfig, RankingConfig, ServingConfig
from dcrec_spark.config.types import Place
from dcrec_spark.config.warehouses import WithWarehouses


class RecommendConfig(ListsConfig):
    """Who gets recommendations, how many, of which items, how sure they are, and what is published beside the lists."""

    users: Place | None = Field(
        default=None,
        description="Parquet or CSV with the users to serve, in the column input.columns.user; null: all users",
    )


class RecommendJobConfig(WithAudit, WithWarehouses, ServingConfig):
    """Everything that jobs/recommend.py can be given."""

    job: ClassVar[str] = "recommend"

    recommend: RecommendConfig = RecommendConfig()


class FoldInConfig(ServingConfig):
    """Everything that jobs/fold_in.py can be given."""

    job: ClassVar[str] = "fold_in"

    recommend: RankingConfig = RankingConfig()
