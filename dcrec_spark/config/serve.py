"""Settings of ``jobs/recommend.py`` and ``jobs/fold_in.py``, which rank by a saved model."""

from typing import ClassVar

from pydantic import Field

from dcrec_spark.config.shared import RankingConfig, ServingConfig, SureRankingConfig
from dcrec_spark.config.types import Place
from dcrec_spark.config.warehouses import WithWarehouses


class RecommendConfig(SureRankingConfig):
    """Who gets recommendations, how many, whether items already rated are left out, and how sure the lists are."""

    users: Place | None = Field(
        default=None,
        description="Parquet or CSV with the users to serve, in the column input.columns.user; null: all users",
    )


class RecommendJobConfig(WithWarehouses, ServingConfig):
    """Everything that jobs/recommend.py can be given."""

    job: ClassVar[str] = "recommend"

    recommend: RecommendConfig = RecommendConfig()


class FoldInConfig(ServingConfig):
    """Everything that jobs/fold_in.py can be given."""

    job: ClassVar[str] = "fold_in"

    recommend: RankingConfig = RankingConfig()
