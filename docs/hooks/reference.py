"""Tables of the reference that are made from the code at each build: settings, tables, exit codes, command line.

Each takes the place of a line ``<!-- made: NAME -->`` of a page.
"""

import inspect
import re
from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pyspark.sql.types import DataType, StringType, StructType
from settings_page import markdown  # mkdocs finds a hook by its folder

from dcrec_spark import errors
from dcrec_spark.jobs.cli import dcrec
from dcrec_spark.publish import schemas

MARK = re.compile(r"<!-- made: ([a-z-]+) -->")
# Of docstrings, :meth:`release` for one: the name alone is shown.
ROLE = re.compile(r":(?:attr|class|func|meth|mod):(<code>)~?(?:[\w.]+\.)?(\w+</code>)")
_IDS = "string or long, as the ids came in"
_STRING = StringType()
# Name of the table, its schema, what it holds.
TABLES: list[tuple[str, StructType, str]] = [
    (
        "recommendations",
        schemas.recommendations(_STRING, _STRING, intervals=True),
        str(schemas.recommendations.__doc__),
    ),
    ("user_overlap", schemas.overlap("user", _STRING), str(schemas.overlap.__doc__)),
    ("item_overlap", schemas.overlap("item", _STRING), str(schemas.overlap.__doc__)),
    ("fallback", schemas.fallback(_STRING), str(schemas.fallback.__doc__)),
    ("user_vectors, item_vectors", schemas.vectors(_STRING), str(schemas.vectors.__doc__)),
    ("similar_items", schemas.similar_items(_STRING), str(schemas.similar_items.__doc__)),
    ("changes", schemas.changes(_STRING, _STRING), str(schemas.changes.__doc__)),
    ("user_factors", schemas.factors("user", _STRING), str(schemas.factors.__doc__)),
    ("item_factors", schemas.factors("item", _STRING), str(schemas.factors.__doc__)),
    ("metrics", schemas.METRICS, "One row for each model and metric, each with its variant in its name."),
    ("rejects", schemas.REJECTS, "One row for each input row that was not used, with all its reasons."),
    ("runs", schemas.RUNS, "One row: what run.json says, as a table."),
    ("trials", schemas.TRIALS, "One row for each trial of a search, and for each round that it was in."),
]
_ID_COLUMNS = {"user_id", "item_id", "similar_item_id", "id"}


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the tables in their places."""
    return MARK.sub(lambda mark: MADE[mark[1]]() if mark[1] in MADE else mark[0], markdown)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show names without their roles."""
    return ROLE.sub(r"\1\2", content)


def tables() -> str:
    """Every published table, column by column."""
    parts = []
    for name, schema, about in TABLES:
        parts += [f"## {name}", "", inspect.cleandoc(about), "", "| column | type | null |", "| --- | --- | --- |"]
        for field in schema:
            kind = _IDS if field.name in _ID_COLUMNS else _type_name(field.dataType)
            parts.append(f"| `{field.name}` | {kind} | {'yes' if field.nullable else 'no'} |")
        parts.append("")
    return "\n".join(parts)


def _type_name(kind: DataType) -> str:
    return kind.simpleString().replace("<", " of ").replace(">", "").replace(",", " to ")


def exit_codes() -> str:
    """Every exit code, with the errors that lead to it."""
    rows = [(0, "", "Done: published, or the dry run found nothing wrong.")]
    rows += [(error.exit_code, error.__name__, _about(error)) for error in _errors()]
    rows.append((1, "any other exception", "Unexpected: the traceback is in the log."))
    lines = [f"| {code} | {_code(name)} | {about} |" for code, name, about in sorted(rows)]
    return "\n".join(["| exit code | error | meaning |", "| --- | --- | --- |", *lines])


def _code(name: str) -> str:
    return f"`{name}`" if name.isidentifier() else name


def _errors() -> Iterator[type[errors.DcrecError]]:
    for _, value in inspect.getmembers(errors, inspect.isclass):
        if issubclass(value, errors.DcrecError) and value is not errors.DcrecError:
            yield value


def _about(error: type[errors.DcrecError]) -> str:
    return " ".join(inspect.cleandoc(str(error.__doc__)).split())


def command_line() -> str:
    """Print the help of the command, and of each of its subcommands."""
    parts = [_help("dcrec", dcrec)]
    for name, command in dcrec.commands.items():
        parts += [f"## dcrec {name}", _help(f"dcrec {name}", command)]
    return "\n\n".join(parts)


def _help(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=78)
    return f"```text\n{command.get_help(context)}\n```"


def settings() -> str:
    """Every setting, section by section, each with an anchor such as ``#exposure.rank``."""
    section, lines = "", []
    for line in markdown().splitlines():
        if line.startswith("## "):
            section = line.strip("# `")
        lines.append(re.sub(r"^\| `([\w.]+)`", rf'| <span id="{section}.\1">`\1`</span>', line))
    return "\n".join(lines[next(at for at, line in enumerate(lines) if line.startswith("## ")) :])


MADE = {"settings": settings, "tables": tables, "exit-codes": exit_codes, "command-line": command_line}
