"""jobs/reproduce.py: the studies of a profile, as units that an interruption leaves whole, and their page.

data folder ─ units, each kept under studies.work ─ README.md, tables and pictures under output.path
"""

from dataclasses import replace
from pathlib import Path

from rich.text import Text

from dcrec_spark.config import RunConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.common import open_job, output_path
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.publish.manifest import RECORD, to_json
from studies.profiles import PROFILES, YAHOO, Profile
from studies.run import chosen_units, reproduce
from studies.units import read

JOB = "reproduce"


def reproduce_studies(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Path | None:
    """Run what is not there yet, then write the page; returns it, None after a dry run.

    Raises
    ------
    ConfigError : studies.data is not a folder, a part of studies.only names nothing, or the output cannot be written.
    """
    output, timings, data = output_path(config), reporter.new_run(), _data(config)
    work = Path(config.studies.work or f"output/studies/{config.studies.profile}")
    profile, only = _profile(config, data), config.studies.only
    units = chosen_units(profile, data, work, only)
    spark = open_job(config, reporter, output, writes=not dry_run)
    there = sum(read(unit, work) is not None for unit in units)
    reporter.show(Text(f"{len(units)} units, {there} of them there already", style="bold"))
    if dry_run:
        reporter.show(Text("dry run: everything checks out, nothing was written", style="bold green"))
        return None
    run = Run.begin(JOB, config, spark, timings)
    with run.recorded_on_failure(spark, str(work)):
        with reporter.step("studies"):
            page = reproduce(spark, profile, data, work, Path(output), _command(config), only)
        run.counts |= {"units": len(units), "units_before": there}
        work.mkdir(parents=True, exist_ok=True)
        (work / RECORD).write_bytes(to_json(run.finished()))
    reporter.show(Text(f"written: {page}", style="bold green"))
    return page


def _data(config: RunConfig) -> Path:
    found = config.studies.data
    if found is None or not Path(found).is_dir():
        raise ConfigError(
            f"setting studies.data: found {found!r}, expected the folder that holds coat/, ml-100k/, ml-1m/ (and "
            "yahoo-r3/ where you have it)"
        )
    return Path(found)


def _profile(config: RunConfig, data: Path) -> Profile:
    """Yahoo! R3 takes part where its files are there."""
    profile = PROFILES[config.studies.profile]
    return replace(profile, data={**profile.data, **YAHOO}) if (data / "yahoo-r3").is_dir() else profile


def _command(config: RunConfig) -> str:
    return f"make reproduce DATA=folder PROFILE={config.studies.profile}"
