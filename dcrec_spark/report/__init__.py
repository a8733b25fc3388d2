"""The HTML report of an evaluation: facts, figures, page. Needs the extra ``report``."""

from dcrec_spark.errors import require_extra

require_extra("report")
