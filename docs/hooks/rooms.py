"""Who imports whom: the figures, the picture and the longest chains of calls, read from the source.

``python docs/hooks/rooms.py [PACKAGE]`` prints them; the site shows the picture on its page about the architecture.
Deferred and typing-only imports count.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the figures need nothing but Python
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PACKAGE = Path("dcrec_spark")
WIDTH, FLOOR, BOX_HEIGHT, CHARACTER = 900, 92, 34, 7.6
STYLE = """\
.room { fill: #e0f2f1; stroke: #00796b } text { fill: #263238; text-anchor: middle }
.near { stroke: #455a64; stroke-width: 1.3; marker-end: url(#tip) } .far { stroke: #b0bec5; stroke-width: .8 }"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#455a64"/></marker></defs>'
)
Arrows = dict[str, set[str]]


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the picture to the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "img/rooms.svg", content=picture(current_rooms())))
    return files


def on_page_markdown(markdown: str, *, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Show the picture on the page about the architecture."""
    shown = "![The rooms of the package and the arrows between them](../img/rooms.svg)"
    return markdown.replace("<!-- made: rooms -->", shown)


def current_rooms(package: Path = PACKAGE) -> Arrows:
    """Read the rooms of the package as it is now."""
    return room_imports({module: used - {""} for module, used in module_imports(package).items() if module})


def picture(rooms: Arrows) -> str:
    """Rooms on their floors as SVG; dark arrows go one step, pale lines stand for those that a way around says too."""
    levels = floors(rooms)
    height = FLOOR * len(levels) + 10
    places = {}
    for number, level in enumerate(levels):
        for place, room in enumerate(level):
            places[room] = (WIDTH * (place + 0.5) / len(level), height - FLOOR * (number + 0.5))
    home = {room: name for name in places for room in name.split(" + ")}
    pairs = {(home[a], home[b]) for a, used in rooms.items() for b in used} - {(name, name) for name in places}
    merged: Arrows = {name: {b for a, b in pairs if a == name} for name in places}
    near = {(a, b) for a, b in pairs if not any(b in _reachable(c, merged) for c in merged[a] - {b})}
    lines = [_line(places[a], places[b], "far") for a, b in sorted(pairs - near)]
    lines += [_line(places[a], places[b], "near") for a, b in sorted(near)]
    boxes = [_box(name, *places[name]) for name in sorted(places)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>The rooms and who imports whom</title>'
        f'<style>{STYLE}</style>{TIP}<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f"{''.join(lines + boxes)}</svg>"
    )


def _line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    above, below = start[1] + BOX_HEIGHT / 2, end[1] - BOX_HEIGHT / 2
    return f'<line class="{kind}" x1="{start[0]:.0f}" y1="{above:.0f}" x2="{end[0]:.0f}" y2="{below:.0f}"/>'


def _box(name: str, x: float, y: float) -> str:
    width = CHARACTER * len(name) + 16
    return (
        f'<rect class="room" x="{x - width / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{width:.0f}" '
        f'height="{BOX_HEIGHT}" rx="5"/><text x="{x:.0f}" y="{y + 5:.0f}">{name}</text>'
    )


def module_imports(package: Path) -> Arrows:
    """Find the modules of the package that each module imports, anywhere in the file."""
    trees = {_module(path, package): ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    return {module: set(_imported(tree, package.name, trees)) - {module} for module, tree in trees.items()}


def _module(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST, root: str, modules: Mapping[str, ast.AST]) -> Iterator[str]:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [n if n.removeprefix(f"{root}.") in modules else node.module for n in names]
        for name in names:
            if name == root or name.startswith(f"{root}."):
                yield name.removeprefix(root).removeprefix(".")


def room_of(module: str, packages: set[str]) -> str:
    """Name the folder of a module; a module at the top of the package is a room of its own."""
    folder, _, _ = module.rpartition(".")
    return module if module in packages or not folder else folder


def room_imports(uses: Arrows) -> Arrows:
    """Room -> the other rooms that its modules import; the package's own front door left out."""
    packages = {module.rpartition(".")[0] for module in uses if "." in module}
    arrows: dict[str, set[str]] = defaultdict(set)
    for module, used in uses.items():
        if module:
            room = room_of(module, packages)
            arrows[room] |= {room_of(other, packages) for other in used if other} - {room}
    return dict(arrows)


def floors(arrows: Arrows) -> list[list[str]]:
    """Rooms from the bottom up: each stands above all that it imports. A circle is one entry, joined by ' + '."""
    circles = [circle for circle in strongly_connected(arrows) if len(circle) > 1]
    name = {room: " + ".join(sorted(circle)) for circle in circles for room in circle}
    merged: dict[str, set[str]] = defaultdict(set)
    for room, used in arrows.items():
        merged[name.get(room, room)] |= {name.get(other, other) for other in used} - {name.get(room, room)}
    height: dict[str, int] = {}
    for room in TopologicalSorter(merged).static_order():
        height[room] = 1 + max((height[other] for other in merged.get(room, ())), default=-1)
    return [sorted(room for room, at in height.items() if at == floor) for floor in range(max(height.values()) + 1)]


def strongly_connected(arrows: Arrows) -> list[set[str]]:
    """Find the sets of nodes that reach each other."""
    reach = {node: _reachable(node, arrows) for node in arrows}
    seen: set[str] = set()
    result = []
    for node in sorted(arrows):
        if node not in seen:
            circle = {other for other in reach[node] if node in reach.get(other, ())} | {node}
            seen |= circle
            result.append(circle)
    return result


def _reachable(start: str, arrows: Arrows) -> set[str]:
    found: set[str] = set()
    queue = list(arrows.get(start, ()))
    while queue:
        node = queue.pop()
        if node not in found:
            found.add(node)
            queue += arrows.get(node, ())
    return found


def longest_chain(uses: Arrows) -> list[str]:
    """Find the longest line of modules, each importing the next; empty where there are circles."""
    try:
        order = list(TopologicalSorter(uses).static_order())
    except CycleError:
        return []
    best: dict[str, list[str]] = {}
    for module in order:
        below = max((best[other] for other in uses[module] if other), key=len, default=[])
        best[module] = [module, *below]
    return max(best.values(), key=len)


def main(package: Path = PACKAGE) -> None:
    """Print the figures."""
    uses = {module: used - {""} for module, used in module_imports(package).items() if module}
    rooms = room_imports(uses)
    levels = floors(rooms)
    circles = [sorted(c) for c in strongly_connected(uses) if len(c) > 1]
    write = sys.stdout.write
    write(f"{len(rooms)} rooms on {len(levels)} floors, {sum(map(len, rooms.values()))} arrows between rooms\n")
    write(f"{len(uses)} modules, {sum(map(len, uses.values()))} arrows between modules, {len(circles)} circles\n")
    for circle in circles:
        write(f"  circle: {', '.join(circle)}\n")
    for number, level in reversed(list(enumerate(levels))):
        write(f"{number:2}  {'  '.join(level)}\n")
    write(f"longest chain of imports: {' > '.join(longest_chain(uses)) or 'none, there are circles'}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
