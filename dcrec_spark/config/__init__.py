"""Typed configuration of the jobs.

Each job has a type of its own, such as ``RetrainConfig``, made of sections that jobs share. ``conf/base.yaml``
documents every setting of every job with its choices and its default.
"""

from dcrec_spark.errors import require_extra

require_extra("jobs")
