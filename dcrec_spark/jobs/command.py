"""Entry points: ``dcrec`` of the wheel, and the scripts in jobs/. Importing this file needs none of the extras."""

import sys
from typing import NoReturn

from dcrec_spark.errors import MissingExtraError, require_extra


def main() -> NoReturn:
    """Run ``dcrec``."""
    _run(None)


def run_script(command: str) -> NoReturn:
    """Run one command of ``dcrec`` as a script of its own, for spark-submit."""
    _run(command)


def _run(command: str | None) -> NoReturn:
    try:
        require_extra("jobs")
    except MissingExtraError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    from dcrec_spark.jobs.cli import dcrec

    (dcrec if command is None else dcrec.commands[command])()
    sys.exit(0)
