"""Which variants of the metrics a job computes, by the section ``evaluation`` of its configuration."""

from dcrec_spark.config import MetricsConfig
from dcrec_spark.evaluation.settings import MetricSettings


def metric_settings(given: MetricsConfig, seed: int, cuts: tuple[int, ...]) -> MetricSettings:
    """Return the configured variants, for lists of these lengths."""
    return MetricSettings(cuts, given.relevant_from, replications=given.bootstrap, seed=seed)
