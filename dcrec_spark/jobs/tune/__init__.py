"""The search for settings: draw candidates, fit them, record each one, choose by what was held out.

candidates ─ rounds of fits, side by side or one after the other ─ trials, recorded as they finish ─ choice ─ best.yaml

Needs the extra ``tune``.
"""

from dcrec_spark.errors import require_extra

require_extra("tune")
