"""The notebooks of examples/notebooks as pages, with the outputs that they were saved with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path("examples/notebooks")
PICTURES = ("image/svg+xml", "image/png")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page, and its pictures, for each notebook."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        lines = [f"*The notebook is `{path}`; a test executes it.*", ""]
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        pictures: dict[str, str | bytes] = {}
        for number, cell in enumerate(cells):
            lines += [*_cell(cell, f"{path.stem}-{number}", pictures), ""]
        heading = next(index for index, line in enumerate(lines) if line.startswith("# "))
        lines.insert(0, lines.pop(heading) + "\n")
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content="\n".join(lines)))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def _cell(cell: dict[str, Any], name: str, pictures: dict[str, str | bytes]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield from source.splitlines()
        return
    yield from ("```python", source, "```", "")
    outputs = [output for output in cell["outputs"] if output.get("name") != "stderr"]
    for number, output in enumerate(outputs):
        yield from _output(output, f"{name}-{number}", pictures)


def _output(output: dict[str, Any], name: str, pictures: dict[str, str | bytes]) -> Iterator[str]:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        pictures[f"{name}.svg"] = "".join(data["image/svg+xml"])
        yield from ("", f"![the output of the cell above]({name}.svg)", "")
    elif "text/html" in data:
        yield from ("", f'<div class="output">{"".join(data["text/html"])}</div>', "")
    else:
        text = "".join(output.get("text", data.get("text/plain", "")))
        yield from ('<div class="output" markdown>', "", "```text", text.rstrip(), "```", "", "</div>")
