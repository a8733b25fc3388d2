"""The job that reproduces the paper: the studies of a profile, unit by unit, and their page.

extract      the units, and which of them are done
transform    run the others, each recorded in studies.work as it ends
load         README.md and pictures under output.path; run.json in studies.work
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from pyspark.sql import SparkSession
from rich.console import RenderableType
from rich.text import Text

from dcrec_spark.config.sections import JobConfig
from dcrec_spark.config.types import Section
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.publish.manifest import RECORD, to_json
from studies.compare import Comparison, compare
from studies.datasets import DATASETS
from studies.page import write_page
from studies.profiles import PROFILES, YAHOO, OfData, Profile, compare_point
from studies.units import Archive, Cell, Unit, by_study, run_units


class StudiesSettings(Section):
    """Studies to run and their data; page and pictures go to output.path."""

    data: str | None = Field(
        default=None, description="folder of coat/, ml-100k/, ml-1m/, and yahoo-r3/ if you have it"
    )
    profile: Literal["quick", "full"] = Field(default="quick", description="quick: minutes; full: hours")
    only: tuple[str, ...] = Field(default=(), description="beginnings of the units to run, such as [coat, plain-5]")
    work: str | None = Field(default=None, description="folder of finished units; null: output/studies/<profile>")


class ReproduceConfig(JobConfig):
    """Everything that jobs/reproduce.py can be given."""

    job: ClassVar[str] = "reproduce"

    studies: StudiesSettings = StudiesSettings()


@dataclass(frozen=True)
class Work:
    """The profile, all of its units, those to run, and the archive of results."""

    profile: Profile
    units: Sequence[Unit]
    chosen: Sequence[Unit]
    archive: Archive


class Reproduce(Job[ReproduceConfig, Work, Path]):
    """Run the studies that are not done yet, and write their page. The result is the page."""

    config_type = ReproduceConfig
    last_step = "write the page"

    def check(self, config: ReproduceConfig) -> None:
        """Refuse a folder without data, and names of no study."""
        _work(config)

    def record_directory(self, config: ReproduceConfig) -> str:
        """Next to the results of the units: the output holds only the page and its pictures."""
        return str(_folder(config))

    def extract(self, context: Context[ReproduceConfig]) -> Work:
        """Find which units are done."""
        work = _work(context.config)
        done = len(work.archive.read(work.chosen))
        context.run.counts |= {"units": len(work.chosen), "units_before": done}
        context.reporter.show(Text(f"{len(work.chosen)} units, {done} of them done already", style="bold"))
        return work

    def transform(self, context: Context[ReproduceConfig], inputs: Work) -> Outputs[Path]:
        """Run the other units, and write the page of all that are done."""
        with context.reporter.step("studies"):
            run_units(context.spark, inputs.chosen, inputs.archive)
        command = f"make reproduce DATA=folder PROFILE={context.config.studies.profile}"
        cells = inputs.archive.read(inputs.units)
        missing = [unit.name for unit in inputs.units if unit.name not in cells]
        page = write_page(inputs.profile, by_study(inputs.units, cells), Path(context.output), command, missing)
        return Outputs({}, page)

    def load(self, context: Context[ReproduceConfig], outputs: Outputs[Path]) -> str:
        """Leave the record of the run."""
        (_folder(context.config) / RECORD).write_bytes(to_json(context.run.facts("finished", 0, None)))
        return context.output

    def plan(self, context: Context[ReproduceConfig], inputs: Work) -> list[str]:
        """Name the data, and where results are."""
        return [f"input   {context.config.studies.data}", f"work    {inputs.archive.path}"]

    def summary(self, context: Context[ReproduceConfig], finished: Finished[Path]) -> RenderableType:
        """Where the page is."""
        return Text(f"written: {finished.result}", style="bold green")


def units(profile: Profile, data: Path) -> list[Unit]:
    """All units of a profile, data sets first."""
    found = [_on_data(name, of, data, seed) for name, of in profile.data.items() for seed in range(of.seeds)]
    for name, of in profile.simulations.items():
        for point in of.points:
            study = f"{name}-{point.sweep}-{point.at}"
            names = [row.name for row in of.rows_of(point.sweep)]
            settings = [of.budget, of.reading, of.size, of.n_factors, of.test_pairs_per_user, names]
            found.append(Unit(f"{study}-run-{point.run}", study, settings, partial(compare_point, of, point)))
    return found


def _on_data(name: str, of: OfData, data: Path, seed: int) -> Unit:
    def run(spark: SparkSession) -> Cell:
        parts = DATASETS[name](spark, data, seed)
        return compare(spark, Comparison(parts, of.rows, of.budget, seed, with_als=of.with_als))

    return Unit(f"{name}-seed-{seed}", name, [of.budget, of.with_als, [row.name for row in of.rows]], run)


def _work(config: ReproduceConfig) -> Work:
    folder, profile = config.studies.data, PROFILES[config.studies.profile]
    if folder is None or not Path(folder).is_dir():
        raise ConfigError(
            f"setting studies.data: found {folder!r}, expected the folder that holds coat/, ml-100k/, ml-1m/ (and "
            "yahoo-r3/ if you have it)"
        )
    if (Path(folder) / "yahoo-r3").is_dir():
        profile = replace(profile, data={**profile.data, **YAHOO})
    every, only = units(profile, Path(folder)), config.studies.only
    for start in only:
        if not any(unit.name.startswith(start) for unit in every):
            studies = ", ".join(sorted({unit.study for unit in every}))
            raise ConfigError(f"setting studies.only: found {start!r}, expected beginnings of {studies}")
    chosen = [unit for unit in every if not only or unit.name.startswith(only)]
    return Work(profile, every, chosen, Archive(_folder(config) / "units.zip"))


def _folder(config: ReproduceConfig) -> Path:
    return Path(config.studies.work or f"output/studies/{config.studies.profile}")
