"""The report in a browser, light and dark, narrow and wide: nothing overflows or overlaps, and all is legible.

The page lies in a frame as wide as a phone or a desk, and a script outside of it, which the page itself would not let
run, measures what the browser made of it.
"""

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.report.page import render
from tests.report.made import facts

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
DARK, LIGHT = 0, 1
FRAME = """<!doctype html><html style="color-scheme: light dark"><body style="margin: 0">
<iframe id="page" style="width: {width}px; height: 1000px; border: 0" srcdoc="{page}"></iframe><pre id="found"></pre>
<script>
onload = () => {{
  const inner = document.getElementById("page").contentDocument, root = inner.documentElement;
  const all = (what, where = inner) => [...where.querySelectorAll(what)];
  const box = (part) => {{ const b = part.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }};
  const colour = (what) => getComputedStyle(inner.querySelector(what));
  const found = {{
    width: root.clientWidth, content: root.scrollWidth, headings: all("h2").map((h) => h.textContent),
    page: colour("body").backgroundColor, text: colour("body").color,
    ink: colour("svg text").fill, good: colour("td.good").color, panel: colour("figure").backgroundColor,
    figures: all("svg").map((svg) => ({{
      name: svg.getAttribute("aria-label").slice(0, 40), box: box(svg),
      texts: all("text", svg).map((t) => ({{ text: t.textContent.trim(), box: box(t),
        size: parseFloat(getComputedStyle(t).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width,
        turned: /rotate\\((?!-?0\\b)/.test(t.getAttribute("transform") || "") }})),
    }})),
  }};
  document.getElementById("found").textContent = JSON.stringify(found);
}};
</script></body></html>"""


@pytest.fixture(scope="module")
def browser() -> str:
    """DCREC_BROWSER says that there has to be one."""
    wanted = os.environ.get("DCREC_BROWSER")
    found = next(filter(None, map(shutil.which, [wanted] if wanted else BROWSERS)), None)
    if found is None and wanted:
        pytest.fail(f"DCREC_BROWSER is {wanted!r}, and there is no such program")
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is here; DCREC_BROWSER may name another")
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return render(facts())


def opened(browser: str, page: str, folder: Path, width: int, scheme: int) -> dict[str, Any]:
    """What the browser made of the page."""
    file = folder / "frame.html"
    file.write_text(FRAME.format(width=width, page=escape(page)), encoding="utf-8")
    options = [*QUIET, f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"]
    command = [browser, *options, "--window-size=1500,1100", "--dump-dom", file.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (found,) = re.findall(r'<pre id="found">(.+?)</pre>', dom, re.DOTALL)
    answer: dict[str, Any] = json.loads(unescape(found))
    return answer


@pytest.mark.parametrize(("width", "scheme"), [(360, DARK), (1400, LIGHT)])
def test_the_page_can_be_read(browser: str, page: str, tmp_path: Path, width: int, scheme: int) -> None:
    found = opened(browser, page, tmp_path, width, scheme)

    assert found["width"] <= width
    assert found["content"] <= found["width"], "it scrolls sideways"
    assert len(found["headings"]) == 11
    assert (brightness(found["page"]) > 0.5) == (scheme == LIGHT)
    for ink, paper in (("text", "page"), ("good", "page"), ("ink", "panel")):
        assert contrast(found[ink], found[paper]) >= 4.5, (ink, found[ink], found[paper])
    assert len(found["figures"]) >= 12
    for figure in found["figures"]:
        left, _, right, _ = figure["box"]
        assert 0 <= left < right <= found["width"], figure["name"]
        assert right - left >= 0.75 * min(width, 400), f"{figure['name']} is too small"
        assert min(text["size"] for text in figure["texts"]) >= 8.5, figure["name"]
        assert_apart(figure)


def assert_apart(figure: dict[str, Any]) -> None:
    """Texts neither overlap nor leave the picture; turned ones have boxes larger than they are."""
    level = [text for text in figure["texts"] if not text["turned"] and text["text"]]
    left, top, right, bottom = figure["box"]
    for number, one in enumerate(level):
        a = one["box"]
        assert a[0] >= left - 1 and a[1] >= top - 1 and a[2] <= right + 1 and a[3] <= bottom + 1, (  # noqa: PT018
            figure["name"],
            one["text"],
        )
        for other in level[number + 1 :]:
            b = other["box"]
            apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 3 or b[3] <= a[1] + 3
            assert apart, (figure["name"], one["text"], other["text"])


def brightness(colour: str) -> float:
    """Relative luminance (WCAG 2.1) of ``rgb(1, 2, 3)``."""
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lower, higher = sorted((brightness(one), brightness(other)))
    return (higher + 0.05) / (lower + 0.05)
