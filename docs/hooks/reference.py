"""Reference pages that are made from the code at each build: settings, tables, exit codes, command line."""

import inspect
from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pyspark.sql.types import DataType, StringType, StructType

from dcrec_spark import errors
from dcrec_spark.config.reference import markdown
from dcrec_spark.jobs.cli import dcrec
from dcrec_spark.publish import schemas

MADE = "*Made from the code when this site was built.*"
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
    ("user_factors", schemas.user_factors(_STRING), str(schemas.user_factors.__doc__)),
    ("item_factors", schemas.item_factors(_STRING), str(schemas.item_factors.__doc__)),
    ("metrics", schemas.METRICS, "One row for each model and metric, each with its variant in its name."),
    ("rejects", schemas.REJECTS, "One row for each input row that was not used, with all its reasons."),
    ("runs", schemas.RUNS, "One row: what run.json says, as a table."),
    ("trials", schemas.TRIALS, "One row for each trial of a search, and for each round that it was in."),
]
_ID_COLUMNS = {"user_id", "item_id", "similar_item_id", "id"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {
        "settings": settings_page(),
        "tables": tables_page(),
        "exit-codes": exit_codes_page(),
        "command-line": command_line_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def tables_page() -> str:
    """Every published table, column by column."""
    parts = ["# Published tables", "", MADE, ""]
    parts += ["How they are laid out on disk and read is in [Reading the tables](../how-to/read-the-tables.md).", ""]
    for name, schema, about in TABLES:
        parts += [f"## {name}", "", inspect.cleandoc(about), "", "| column | type | null |", "| --- | --- | --- |"]
        for field in schema:
            kind = _IDS if field.name in _ID_COLUMNS else _type_name(field.dataType)
            parts.append(f"| `{field.name}` | {kind} | {'yes' if field.nullable else 'no'} |")
        parts.append("")
    return "\n".join(parts)


def _type_name(kind: DataType) -> str:
    return kind.simpleString().replace("<", " of ").replace(">", "").replace(",", " to ")


def exit_codes_page() -> str:
    """Every exit code, with the errors that lead to it."""
    rows = [(0, "", "Done: published, or the dry run found nothing wrong.")]
    rows += [(error.exit_code, error.__name__, _about(error)) for error in _errors()]
    rows.append((1, "any other exception", "Unexpected: the traceback is in the log."))
    lines = [f"| {code} | {_code(name)} | {about} |" for code, name, about in sorted(rows)]
    table = ["| exit code | error | meaning |", "| --- | --- | --- |", *lines]
    text = "The same for every job. `run.json` holds the code and the error, also of a run that failed."
    return "\n".join(["# Exit codes", "", MADE, "", text, "", *table, ""])


def _code(name: str) -> str:
    return f"`{name}`" if name.isidentifier() else name


def _errors() -> Iterator[type[errors.DcrecError]]:
    for _, value in inspect.getmembers(errors, inspect.isclass):
        if issubclass(value, errors.DcrecError) and value is not errors.DcrecError:
            yield value


def _about(error: type[errors.DcrecError]) -> str:
    return " ".join(inspect.cleandoc(str(error.__doc__)).split())


def command_line_page() -> str:
    """Print the help of the command, and of each of its subcommands."""
    parts = ["# Command line", "", MADE, "", *_help("dcrec", dcrec)]
    for name, command in dcrec.commands.items():
        parts += ["", f"## dcrec {name}", "", *_help(f"dcrec {name}", command)]
    return "\n".join([*parts, ""])


def _help(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=name, terminal_width=78)
    return ["```text", command.get_help(context), "```"]


def settings_page() -> str:
    """Every setting, section by section."""
    title, _, body = markdown().partition("\n")
    return f"{title}\n\n{MADE}\n\n{_INTRODUCTION}\n{body}"


_INTRODUCTION = """\
A configuration file holds only what differs from these defaults. `${env:NAME}` takes a value from the environment,
which is where passwords belong; `${section.name}` takes another setting. The same list, as a file: `conf/base.yaml`.
"""
