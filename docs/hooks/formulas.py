r"""Turn formulas into MathML while the site is built, so that a page needs no script and no font to show them."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace what ``pymdownx.arithmatex`` marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    return str(convert(html.unescape(match["latex"]).strip(), display=display))
