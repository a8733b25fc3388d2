"""The rooms of ``models`` are built on one another, and what differs between families is asked of the family."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dcrec_spark
from dcrec_spark.models.families.registry import FAMILIES

PACKAGE = Path(dcrec_spark.__file__).parent
MODELS = "dcrec_spark.models."
# From the ground up. Each room uses those before it; what lies in no room belongs to the first floor.
FLOORS = ["families", "params", "persistence", "fitting", "exposure", "explain", "certainty", "outcome"]


def trees() -> Iterator[tuple[str, ast.AST]]:
    """Every module of the package by its path in it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported_rooms(tree: ast.AST) -> set[str]:
    """Rooms of ``models`` that a module names in an import, deferred or for types only, too."""
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.removeprefix(MODELS).split(".")[0] for name in modules if name.startswith(MODELS)}


def test_no_room_uses_one_above_it() -> None:
    upward = {
        (path, used)
        for path, tree in trees()
        if path.startswith("models/") and path != "models/__init__.py"
        for room in [path.removeprefix("models/").removesuffix(".py").split("/")[0]]
        for used in imported_rooms(tree)
        if FLOORS.index(used) > FLOORS.index(room)
    }
    assert upward == set()


def is_switch(node: ast.AST) -> bool:
    """A comparison with the name of an outcome, or a look at which family's steps or terms something is."""
    if isinstance(node, ast.Compare):
        compared = [node.left, *node.comparators]
        return any(isinstance(part, ast.Constant) and part.value in FAMILIES for part in compared)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
        return bool(kinds & {"GaussianSteps", "GammaPoissonSteps", "GammaPoisson", "Shared", "SharedGammas"})
    return isinstance(node, ast.Name) and node.id == "is_poisson"


def test_only_families_know_which_family_they_are() -> None:
    assert is_switch(ast.parse("outcome == 'poisson'").body[0].value)  # type: ignore[attr-defined]
    assert is_switch(ast.parse("isinstance(steps, GaussianSteps)").body[0].value)  # type: ignore[attr-defined]
    switches = {
        f"{path}:{node.lineno}"  # type: ignore[attr-defined]
        for path, tree in trees()
        if not path.startswith("models/families/")
        for node in ast.walk(tree)
        if is_switch(node)
    }
    assert switches == set()
