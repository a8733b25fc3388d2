"""The search for settings: draw candidates, fit and record each, choose by held-out ratings. Needs the extra ``tune``.

candidates ─ fits, in memory or on the cluster ─ trials, recorded as they finish ─ choice ─ best.yaml
"""

from dcrec_spark.errors import require_extra

require_extra("tune")
