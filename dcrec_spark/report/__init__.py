"""The report of an evaluation, one page of HTML. Needs the extra ``report``."""

from dcrec_spark.errors import require_extra

require_extra("report")
