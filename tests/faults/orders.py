"""Orders to break something at a step, as files: whoever removes one has it, so each is carried out by one process."""

import os
import signal
import time
from pathlib import Path

from pyspark import TaskContext

VARIABLE = "DCREC_TEST_ORDERS"
# Long enough for a copy to overtake it on a machine that is busy with other things; who is overtaken is ended at once.
STALL_SECONDS = 20.0


class OrderedFailure(Exception):
    """What a task dies of when it is told to."""


class Orders:
    """Orders in ``folder``; those that were carried out are in ``folder/done``, with who did so."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, folder / "done"
        self.done.mkdir(parents=True, exist_ok=True)

    def place(self, step: str, action: str, times: int = 1) -> None:
        """Have ``action`` happen to the first processes that reach ``step`` from now on."""
        for _ in range(times):
            taken = len(list(self.folder.glob(f"*/{step}.{action}.*"))) + len(list(self.folder.glob(f"{step}.*")))
            (self.folder / f"{step}.{action}.{taken}").touch()

    def open(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.is_file()]

    def carried_out(self) -> list[str]:
        return sorted(path.name.rpartition(".")[0] for path in self.done.iterdir())

    def reach(self, step: str, executor: int) -> None:
        """Carry out an order for this step, if there is one; ``executor`` is the process that started this one."""
        for order in self.folder.glob(f"{step}.*"):
            try:
                order.rename(self.done / order.name)
            except FileNotFoundError:
                continue  # another process has it
            carry_out(order.name.split(".")[1], executor)
            return


def carry_out(action: str, executor: int) -> None:
    if action == "executor":
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)  # it takes this process with it
    elif action == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "task":
        raise OrderedFailure("a task was told to fail")
    elif action == "stall" and ((context := TaskContext.get()) is None or context.attemptNumber() == 0):
        time.sleep(STALL_SECONDS)
