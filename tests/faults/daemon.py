"""Spark's daemon of Python workers, whose workers obey orders: what it changes is changed before they are forked."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.daemon import manager

from dcrec_spark.engine import exchange
from dcrec_spark.kernels import topn
from tests.faults.orders import VARIABLE, Orders

ORDERS = Orders(Path(os.environ[VARIABLE]))
CALLS = ORDERS.folder / "calls"
# The daemon's parent; workers are the daemon's children.
EXECUTOR = os.getppid()


def obeying(step: str, function: Callable[..., Any]) -> Callable[..., Any]:

    def obey(*given: Any, **named: Any) -> Any:
        with (CALLS / f"{step}.{os.getpid()}").open("ab") as calls:
            calls.write(b".")
        ORDERS.reach(step, EXECUTOR)
        return function(*given, **named)

    return obey


def main() -> None:
    CALLS.mkdir(exist_ok=True)
    exchange.update_block = obeying("update", exchange.update_block)
    topn.top_n = obeying("rank", topn.top_n)
    manager()


if __name__ == "__main__":
    main()
