"""The predictive check before a retraining publishes: where the exposure model fails it, it warns or refuses.

A substitute confounder from a model that the exposures contradict is not to be trusted, nor are recommendations by it.
The check fits the exposure model once more, with some of the exposures held out, before the fit that is published.
"""

from pyspark.sql import DataFrame

from dcrec_spark.config import RetrainConfig
from dcrec_spark.errors import AuditError
from dcrec_spark.jobs.job import Context
from dcrec_spark.models.exposure.estimator import PoissonFactorization

_REMEDY = "another exposure.rank may pass, or outcome.adjustment=none goes without a_hat"


def check_exposures(context: Context[RetrainConfig], ratings: DataFrame, exposure: PoissonFactorization) -> None:
    """Check the exposure model as it is about to be fitted; a model without a confounder is not checked.

    The figures go into the record of the run, a failure into its warnings too.

    Parameters
    ----------
    ratings : what the fit is given. exposure : stage 1 as it is configured.

    Raises
    ------
    AuditError : the model fails, and the settings say to refuse it.
    """
    settings = context.config.exposure_check
    if settings.action == "off" or context.config.outcome.adjustment != "deconfounded":
        return
    with context.reporter.step("check the exposures"):
        check = exposure.predictiveCheck(
            ratings, settings.held_out_share, settings.replications, context.config.run.seed
        )
    check.release()
    context.run.checked(check)
    if check.passed:
        return
    if settings.action == "refuse":
        raise AuditError(
            f"setting exposure_check.action=refuse: {check.summary}; {_REMEDY}; exposure_check.action=warn publishes "
            "all the same"
        )
    context.run.warnings.append(f"{check.summary}; {_REMEDY}")
