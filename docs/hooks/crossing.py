"""Which modules a rating crosses from a file to the tables, and the deepest chain of calls: a small retraining, traced.

``python docs/hooks/crossing.py [TREE]`` prints them. Only the driver's part is traced: kernels run in Spark's workers.
Needs the installed package's dependencies, and takes half a minute.
"""

import os
import runpy
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

SETTINGS = {
    "input.format": "csv",
    "input.id_type": "string",
    "exposure.rank": 2,
    "exposure.max_iter": 2,
    "outcome.rank": 2,
    "outcome.max_iter": 2,
    "engine.exchange": "blocks",
}


class Trace:
    """What ``sys.setprofile`` calls: modules in the order in which they are first entered, and the deepest stack."""

    def __init__(self, package: Path) -> None:
        self.package = str(package.resolve())
        self.modules: dict[str, None] = {}
        self.deepest: list[str] = []
        self._stack: list[str] = []
        self._importing = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Follow the calls and returns of the package's functions; importing a module is no call."""
        code = frame.f_code
        if not code.co_filename.startswith(self.package):
            return
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif self._importing:
            return
        elif event == "call":
            module = code.co_filename.removeprefix(self.package).strip("/").removesuffix(".py").replace("/", ".")
            self.modules.setdefault(module)
            self._stack.append(f"{module}.{code.co_qualname}")
            if len(self._stack) > len(self.deepest):
                self.deepest = self._stack.copy()
        elif event == "return" and self._stack:
            self._stack.pop()


def main(tree: str = ".") -> None:
    """Retrain on sixteen ratings, and print what was called."""
    root = Path(tree).resolve()
    sys.path.insert(0, str(root))
    os.environ["PYTHONPATH"] = str(root)  # for the workers
    trace = Trace(root / "dcrec_spark")
    with tempfile.TemporaryDirectory() as folder:
        ratings = Path(folder, "ratings.csv")
        rows = [f"u{u},i{i},{1 + (u * i) % 5}" for u in range(4) for i in range(6) if (u + i) % 3]
        ratings.write_text("\n".join(["user,item,rating", *rows]) + "\n", encoding="utf-8")
        settings = {**SETTINGS, "input.path": ratings, "output.path": f"{folder}/tables"}
        sys.argv = ["retrain", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]
        sys.setprofile(trace)
        try:
            runpy.run_path(str(root / "jobs" / "retrain.py"), run_name="__main__")
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.setprofile(None)
    write = sys.stdout.write
    write(f"retrain ended with {code}; a rating crosses {len(trace.modules)} modules:\n  {' '.join(trace.modules)}\n")
    write(f"the deepest chain has {len(trace.deepest)} calls:\n")
    for call in trace.deepest:
        write(f"  {call}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
