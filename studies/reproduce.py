"""The job that reproduces the paper: the studies of a profile, unit by unit, and their page.

extract      which units there are, and which of them are done
transform    run the others, each recorded under studies.work as it ends
load         README.md, tables and pictures under output.path; run.json under studies.work
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from rich.console import RenderableType
from rich.text import Text

from dcrec_spark.config import JobConfig
from dcrec_spark.config.section import Section
from dcrec_spark.config.types import Text as Words
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.publish.manifest import RECORD, to_json
from studies.profiles import PROFILES, YAHOO, Profile
from studies.run import chosen_units, run_units, write_results
from studies.units import Unit, read


class StudiesConfig(Section):
    """Studies to run and their data; page, tables and pictures go to output.path."""

    data: Words | None = Field(
        default=None, description="folder of coat/, ml-100k/, ml-1m/, and yahoo-r3/ if you have it"
    )
    profile: Literal["quick", "full"] = Field(default="quick", description="quick: minutes; full: hours")
    only: tuple[Words, ...] = Field(default=(), description="beginnings of the units to run, such as [coat, plain-5]")
    work: Words | None = Field(default=None, description="folder of finished units; null: output/studies/<profile>")


class ReproduceConfig(JobConfig):
    """Everything that jobs/reproduce.py can be given."""

    job: ClassVar[str] = "reproduce"

    studies: StudiesConfig = StudiesConfig()


@dataclass(frozen=True)
class Inputs:
    """The profile, its chosen units, the folder of the data, and that of the units' results."""

    profile: Profile
    units: Sequence[Unit]
    data: Path
    work: Path


class Reproduce(Job[ReproduceConfig, Inputs, Path]):
    """Run the studies that are not done yet, and write their page. The result is the page."""

    config_type = ReproduceConfig
    last_step = "write the page"

    def check(self, config: ReproduceConfig) -> None:
        """Refuse a folder without data, and names of no study."""
        _inputs(config)

    def record_directory(self, config: ReproduceConfig) -> str:
        """Beside the results of the units: the output holds nothing but the page and what is on it."""
        return str(_work(config))

    def extract(self, context: Context[ReproduceConfig]) -> Inputs:
        """Find which units are done."""
        inputs = _inputs(context.config)
        done = sum(read(unit, inputs.work) is not None for unit in inputs.units)
        context.run.counts |= {"units": len(inputs.units), "units_before": done}
        context.reporter.show(Text(f"{len(inputs.units)} units, {done} of them there already", style="bold"))
        return inputs

    def transform(self, context: Context[ReproduceConfig], inputs: Inputs) -> Outputs[Path]:
        """Run the other units, and write the page of all that there is."""
        with context.reporter.step("studies"):
            run_units(context.spark, inputs.units, inputs.work)
        command = f"make reproduce DATA=folder PROFILE={context.config.studies.profile}"
        page = write_results(inputs.profile, inputs.data, inputs.work, Path(context.output), command)
        return Outputs({}, page)

    def load(self, context: Context[ReproduceConfig], outputs: Outputs[Path]) -> str:
        """Leave the record of the run; the page is there."""
        work = _work(context.config)
        work.mkdir(parents=True, exist_ok=True)
        (work / RECORD).write_bytes(to_json(context.run.finished()))
        return context.output

    def plan(self, context: Context[ReproduceConfig], inputs: Inputs) -> list[str]:
        """Name the data, and where results are."""
        return [f"input   {inputs.data}", f"work    {inputs.work}"]

    def summary(self, context: Context[ReproduceConfig], finished: Finished[Path]) -> RenderableType:
        """Where the page is."""
        return Text(f"written: {finished.result}", style="bold green")


def _inputs(config: ReproduceConfig) -> Inputs:
    folder = config.studies.data
    if folder is None or not Path(folder).is_dir():
        raise ConfigError(
            f"setting studies.data: found {folder!r}, expected the folder that holds coat/, ml-100k/, ml-1m/ (and "
            "yahoo-r3/ where you have it)"
        )
    data, work, profile = Path(folder), _work(config), PROFILES[config.studies.profile]
    if (data / "yahoo-r3").is_dir():
        profile = replace(profile, data={**profile.data, **YAHOO})
    return Inputs(profile, chosen_units(profile, data, work, config.studies.only), data, work)


def _work(config: ReproduceConfig) -> Path:
    return Path(config.studies.work or f"output/studies/{config.studies.profile}")
