"""Who may import whom: data flows down, once. Read from the source, whatever is installed."""

import ast
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "dcrec_spark"
ROOT = PACKAGE.name
TREES = {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def module_of(path: Path) -> str:
    """dcrec_spark/models/params.py -> models.params; the package itself is ''."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): tree for path, tree in TREES.items()}


def imported(nodes: list[ast.AST]) -> set[str]:
    """Full names that are imported; ``from a import b`` is a.b where that is a module, else a."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written in full"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                names.add(module if module.removeprefix(f"{ROOT}.") in MODULES else str(node.module))
    return names


def inner(nodes: list[ast.AST]) -> set[str]:
    """Modules of the package among the imports, without its name."""
    return {name.removeprefix(ROOT).removeprefix(".") for name in imported(nodes) if name.split(".")[0] == ROOT}


def part_of(module: str) -> str:
    return module.split(".")[0]


USES = {module: inner(list(ast.walk(tree))) for module, tree in MODULES.items()}
FOREIGN = {module: set(map(part_of, imported(list(ast.walk(tree))))) - {ROOT} for module, tree in MODULES.items()}


def test_nothing_lies_loose_at_the_top() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "errors.py", "version.py", "py.typed"}


@pytest.mark.parametrize(
    ("part", "allowed"),
    [
        ("errors", set()),
        ("version", set()),
        ("settings", set()),
        ("config", {"errors", "settings"}),
        ("kernels", {"errors"}),
        ("spark", {"errors", "version"}),
        ("storage", {"errors", "spark"}),
        ("engine", {"errors", "kernels", "spark"}),
        ("data", {"errors", "config", "spark"}),
        ("models", {"errors", "version", "settings", "kernels", "spark", "engine", "data", "storage"}),
        ("publish", {"errors", "spark", "storage"}),
        ("evaluation", {"errors", "settings", "kernels", "spark", "engine", "data", "models"}),
        ("local", {"errors", "kernels", "spark", "engine", "models", "evaluation"}),
        ("plots", {"errors", "data", "evaluation", "models"}),
        ("report", {"errors", "evaluation", "models", "plots"}),
    ],
)
def test_a_part_uses_only_what_lies_below_it(part: str, allowed: set[str]) -> None:
    found = {module: set(map(part_of, uses)) for module, uses in USES.items() if part_of(module) == part}
    assert found, f"no such part: {part}"
    assert {module: strangers for module, used in found.items() if (strangers := used - allowed - {part})} == {}


def test_the_engine_knows_no_model() -> None:
    """Kernels are given to it; the order of nonzeros is all that it takes by itself."""
    taken = set().union(*(uses for module, uses in USES.items() if part_of(module) == "engine"))
    assert {used for used in taken if part_of(used) == "kernels"} == {"kernels.csr"}


@pytest.mark.parametrize("part", ["kernels", "errors", "settings", "config"])
def test_arrays_and_settings_know_nothing_of_spark(part: str) -> None:
    used = {module: FOREIGN[module] & {"pyspark", "py4j", "pyarrow"} for module in MODULES if part_of(module) == part}
    assert {module: names for module, names in used.items() if names} == {}


def test_the_table_of_settings_needs_nothing_but_python() -> None:
    """Estimators have it without the jobs' packages, the jobs' configuration without Spark."""
    foreign = set().union(*(names for module, names in FOREIGN.items() if part_of(module) == "settings"))
    assert foreign <= sys.stdlib_module_names


def test_only_the_jobs_publish() -> None:
    users = {part_of(module) for module, uses in USES.items() if "publish.parquet" in uses}
    assert users <= {"publish", "jobs"}


@pytest.mark.parametrize("outside", ["studies", "examples", "tests", "benchmarks"])
def test_the_package_needs_nothing_that_lies_outside_the_wheel(outside: str) -> None:
    assert {module for module, names in FOREIGN.items() if outside in names} == set()


def cycle_in(uses: Mapping[str, set[str]]) -> list[str]:
    """Modules that lead back to the first one; empty where there are none."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room_of(module: str) -> str:
    """The folder that a module lies in; the rooms of ``models`` and of ``data`` are rooms of their own."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] in ("models", "data") and len(parts) > 2 else parts[0]


def test_imports_run_one_way() -> None:
    """Between modules and between rooms; what waits inside a function, or serves types only, counts too.

    The package's own module only hands names on, and nobody below may take them from there.
    """
    assert cycle_in({"a": {"b"}, "b": {"a"}}) != []
    modules = {module: uses - {""} for module, uses in USES.items() if module}
    assert cycle_in(modules) == []
    rooms: dict[str, set[str]] = {}
    for module, uses in modules.items():
        rooms.setdefault(room_of(module), set()).update(map(room_of, uses))
    assert cycle_in({room: uses - {room} for room, uses in rooms.items()}) == []


def test_the_tests_mirror_the_tree() -> None:
    """Each folder of the package has a namesake among the tests, and no folder of tests is left without one."""
    tests = Path(__file__).resolve().parent
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in TREES} - {"."}
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")} - {"."}
    assert rooms - folders == set()
    beside_the_package = "clusters docs examples faults packaging reference schedulers studies warehouse"
    assert folders - rooms == set(beside_the_package.split())


def test_the_package_takes_nothing_through_its_own_front_door() -> None:
    """Except its version, which stands there."""
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == ROOT:
                names = {alias.name for alias in node.names if alias.name not in MODULES}
                assert names <= {"__version__"}, f"{module} takes {names} from {ROOT}; name the module that has it"


def test_every_module_says_what_it_is_for() -> None:
    """Empty files only mark a folder as a package."""
    assert [module for module, tree in MODULES.items() if tree.body and not ast.get_docstring(tree)] == []


# Names that Spark Connect does not have, and what leads to the JVM behind classic Spark.
OF_CLASSIC_SPARK = {"Accumulator", "Broadcast", "RDD", "SparkConf", "SparkContext", "py4j", "rdd", "sparkContext"}
OF_THE_JVM = {"_gateway", "_jdf", "_jrdd", "_jsc", "_jsparkSession", "_jvm", "_sc"}


def spoken_in(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {part for alias in node.names for part in alias.name.split(".")}
            names |= set((getattr(node, "module", None) or "").split("."))
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return names


def test_only_one_part_speaks_to_classic_spark_and_the_jvm() -> None:
    private = OF_CLASSIC_SPARK | OF_THE_JVM
    speakers = {module: spoken_in(tree) & private for module, tree in MODULES.items()}
    assert {"spark.lineage", "spark.hadoop", "spark.session"} <= {module for module, names in speakers.items() if names}
    assert {module: names for module, names in speakers.items() if names and part_of(module) != "spark"} == {}
