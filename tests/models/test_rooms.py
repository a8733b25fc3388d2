"""What differs between families of models is asked of the family."""

import ast
from pathlib import Path

import dcrec_spark
from dcrec_spark.models.families.registry import FAMILIES

PACKAGE = Path(dcrec_spark.__file__).parent
TREES = {path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
STEPS = {"GaussianSteps", "GammaPoisson", "Shared", "SharedGammas"}


def is_switch(node: ast.AST) -> bool:
    """A comparison with the name of an outcome, or a look at which family's steps or terms something is."""
    if isinstance(node, ast.Compare):
        return any(isinstance(part, ast.Constant) and part.value in FAMILIES for part in (node.left, *node.comparators))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return bool(STEPS & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)})
    return isinstance(node, ast.Name) and node.id == "is_poisson"


def test_only_families_know_which_family_they_are() -> None:
    for switch in ("outcome == 'poisson'", "isinstance(steps, GaussianSteps)"):
        assert is_switch(ast.parse(switch, mode="eval").body)
    outside = [(path, tree) for path, tree in TREES.items() if path.parts[:2] != ("models", "families")]
    assert [path for path, tree in outside if any(map(is_switch, ast.walk(tree)))] == []
