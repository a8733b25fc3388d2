"""The code that follows from the tables of settings: ``python -m dcrec_spark.settings.generate`` writes it anew.

    models/exposure/params.py, models/outcome/params.py      Params and getters, as pyspark.ml.param.shared has them
    models/exposure/setters.py, models/outcome/setters.py    setters and setParams of the estimators
    config/stages.py                                         the configuration sections exposure, outcome and engine

Editors, type checkers and readers see plain code; a test holds that it is what this module writes.
"""

import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcrec_spark.settings.kinds import Choice, Flag, Number
from dcrec_spark.settings.setting import Setting, in_section, params
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, OUTCOMES, SECTIONS

PACKAGE = Path(__file__).resolve().parents[1]
_WIDTH = 120
_NOTE = "Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited."

_PARAMS = '''\
"""Params of the {model}, with their getters.

{note}
"""

{typing}from pyspark.ml.param import Param
from pyspark.ml.param.shared import {shared}

from dcrec_spark.models.params import {names}
from dcrec_spark.settings.setting import params
from dcrec_spark.settings.tables import {table}

_OF = params({table})


class {title}Params({bases}):
    """Params of the {model}."""

{declarations}
{methods}
'''

_SETTERS = '''\
"""Setters of the {name} stage's estimator, as MLlib's estimators have them.

{note}
"""

from typing import Any, Self
{imports}
from dcrec_spark.models.{name}.params import {title}Params
from dcrec_spark.models.params import {names}
{table}
class {title}Setters({title}Params):
    """A setter for each Param, and one for several."""

{declarations}    @keyword_only
    def setParams(
        self,
        *,
{signature}
    ) -> Self:
        """Set the Params that are given; the others stay as they are."""
        return self._set(**self._input_kwargs)
{methods}
'''

_FIT_IMPORTS = """
from pyspark.ml.param import Param
"""
_FIT_TABLE = """\
from dcrec_spark.settings.setting import params
from dcrec_spark.settings.tables import {table}

_OF = params({table})

"""
_SECTIONS = '''\
"""Configuration sections of both stages, and of the engine that fits them.

{note}
"""

from typing import Annotated, Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import OutcomeName, Real, Whole
{sections}
'''


@dataclass(frozen=True)
class Stage:
    """One estimator, and what is generated for it.

    Attributes
    ----------
    name : room of its modules, and of its configuration section.
    settings : its table, which ``table`` names.
    model : words for what it fits.
    bases : classes of models/params.py that its Params come from.
    shared : classes of pyspark.ml that its Params come from.
    """

    name: str
    settings: tuple[Setting, ...]
    table: str
    model: str
    shared: tuple[str, ...]
    bases: tuple[str, ...] = ("HasIds",)

    @property
    def title(self) -> str:
        """``Exposure``, the first word of its classes' names."""
        return self.name.capitalize()


STAGES = (
    Stage(
        "exposure",
        EXPOSURE,
        "EXPOSURE",
        "exposure model",
        ("HasCheckpointInterval", "HasMaxIter", "HasSeed", "HasTol"),
        ("HasIds", "ExposureSource"),
    ),
    Stage(
        "outcome",
        OUTCOME,
        "OUTCOME",
        "outcome models, and of how they answer",
        ("HasCheckpointInterval", "HasMaxIter", "HasPredictionCol", "HasSeed", "HasTol"),
    ),
)


def generated() -> dict[Path, str]:
    """Map every generated file of the package to its text."""
    files = {PACKAGE / "config" / "stages.py": sections_source()}
    for stage in STAGES:
        files[PACKAGE / "models" / stage.name / "params.py"] = params_source(stage)
        files[PACKAGE / "models" / stage.name / "setters.py"] = setters_source(stage)
    return files


# ---- Params and getters


def params_source(stage: Stage) -> str:
    """Write the module of an estimator's Params: declarations, getters, and the setters that fitted models have too."""
    settings = [setting for setting in params(stage.settings).values() if not setting.of_fit]
    methods = [line for setting in settings for line in (*_getter(setting), *_setter(setting, of_models=True))]
    return _PARAMS.format(
        model=stage.model,
        table=stage.table,
        note=_NOTE,
        title=stage.title,
        typing="from typing import Any, Self\n\n",
        shared=", ".join(stage.shared),
        names=", ".join(sorted({*stage.bases, "declared"}, key=lambda name: (name.islower(), name))),
        bases=", ".join([*stage.bases, *stage.shared]),
        declarations=_joined(map(_declaration, settings)),
        methods=_joined(methods),
    )


def _declaration(setting: Setting) -> str:
    return f'    {setting.param}: Param[{setting.kind.annotation}] = declared(_OF["{setting.param}"])'


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _getter(setting: Setting) -> Iterator[str]:
    yield from ("", f"    def get{_upper(setting.param)}(self) -> {setting.kind.annotation}:")
    yield f'        """{_phrase(setting, "Value of")}"""'
    yield f"        return self.getOrDefault(self.{setting.param})"


def _setter(setting: Setting, of_models: bool) -> Iterator[str]:
    if setting.of_model is not of_models:
        return
    yield from ("", f"    def set{_upper(setting.param)}(self, value: {setting.kind.annotation}) -> Self:")
    yield f'        """{_phrase(setting, "Set")}"""'
    yield f"        return self._set({setting.param}=value)"


def _upper(name: str) -> str:
    return name[0].upper() + name[1:]


def _phrase(setting: Setting, verb: str) -> str:
    """Write one docstring line, ``Set ``rank``: number of factors.``, with as much of the meaning as fits."""
    meaning = setting.brief(as_param=True)
    while len(meaning) > _WIDTH - 30 - len(setting.param) and ";" in meaning:
        meaning = meaning.rpartition(";")[0]
    return f"{verb} ``{setting.param}``: {meaning}."


# ---- setters


def setters_source(stage: Stage) -> str:
    """Write the module of an estimator's setters, and of the Params that only the estimator has."""
    settings = params(stage.settings).values()
    of_fit = [setting for setting in settings if setting.of_fit]
    return _SETTERS.format(
        note=_NOTE,
        imports=_FIT_IMPORTS if of_fit else "",
        names="declared, keyword_only" if of_fit else "keyword_only",
        table=_FIT_TABLE.format(table=stage.table) if of_fit else "\n",
        declarations="".join(f"{_declaration(setting)}\n\n" for setting in of_fit),
        name=stage.name,
        title=stage.title,
        signature=_joined(f"        {s.param}: {s.kind.annotation} = {_literal(s.default)}," for s in settings),
        methods=_joined(line for setting in settings for line in _of_estimator(setting)),
    )


def _of_estimator(setting: Setting) -> Iterator[str]:
    if setting.of_fit:
        yield from _getter(setting)
    yield from _setter(setting, of_models=False)


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


# ---- configuration sections


def sections_source() -> str:
    """Write the module of the configuration sections of both stages and of the engine."""
    return _SECTIONS.format(note=_NOTE, sections=_joined(line for name in SECTIONS for line in _section(name)))


_DOCS = {
    "exposure": "Stage 1, Poisson factorization of who was exposed to what.",
    "outcome": "Stage 2, the rating model that conditions on the substitute confounder.",
    "engine": "How the work is cut up: speed and memory only, the answer is the same beyond rounding.",
}


def _section(name: str) -> Iterator[str]:
    yield from ("", "", f"class {name.capitalize()}Config(Section):", f'    """{_DOCS[name]}"""', "")
    for setting in in_section(SECTIONS[name], name):
        yield f"    {setting.name}: {_field_type(setting)} = Field("
        yield f"        default={_literal(setting.default)},"
        yield from _string_argument("description", setting.explained(as_param=False))
        yield "    )"


def _field_type(setting: Setting) -> str:
    kind = setting.job_kind or setting.kind
    none = " | None" if kind.optional else ""
    if isinstance(kind, Number):
        low = f"{'gt' if kind.open_low else 'ge'}={_literal(kind.low)}"
        bounds = [low] if kind.low > -math.inf else []
        bounds += [f"le={_literal(kind.high)}"] if kind.high < math.inf else []
        return f"Annotated[{'Whole' if kind.type is int else 'Real'}, Field({', '.join(bounds)})]{none}"
    if isinstance(kind, Choice):
        return "OutcomeName" if kind.options is OUTCOMES else f"Literal[{', '.join(map(json.dumps, kind.options))}]"
    if isinstance(kind, Flag):
        return "bool"
    raise TypeError(f"{setting.name}: a configuration section holds numbers, choices and flags, found {kind}")


def _string_argument(name: str, text: str) -> Iterator[str]:
    """Write ``name="..."`` over as many lines as it takes."""
    *pieces, last = textwrap.wrap(text, _WIDTH - len(name) - 13, break_on_hyphens=False)
    quoted = [json.dumps(f"{piece} ") for piece in pieces] + [f"{json.dumps(last)},"]
    yield f"        {name}={quoted[0]}"
    yield from (f"        {piece}" for piece in quoted[1:])


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
