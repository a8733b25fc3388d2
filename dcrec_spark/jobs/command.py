"""Entry points: ``dcrec`` of the wheel, and the scripts in jobs/. Importing this file needs none of the extras."""

import sys
from typing import NoReturn

from dcrec_spark.errors import MissingExtraError, require_extra


def main(command: str | None = None) -> NoReturn:
    """Run ``dcrec``, or one of its commands as a script of its own, for spark-submit."""
    try:
        require_extra("jobs")
    except MissingExtraError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    from dcrec_spark.jobs.cli import dcrec

    (dcrec if command is None else dcrec.commands[command])()
    sys.exit(0)
