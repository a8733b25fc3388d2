"""The paper's tables and figures on our solver: the studies of a profile, unit by unit, and their page.

python -m studies.reproduce --data folder --output docs/studies/full --profile full [--only coat] [--work archive]

The folder has coat/, ml-100k/, ml-1m/, and yahoo-r3/ where you have it. Each unit is recorded in ``--work`` as it ends:
the command continues where it was stopped.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from pyspark.sql import SparkSession

from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.spark.session import build_session
from studies.compare import Comparison, compare
from studies.datasets import DATASETS
from studies.page import write_page
from studies.profiles import PROFILES, YAHOO, OfData, Profile, compare_point
from studies.units import Archive, Cell, Unit, by_study, options, run_units, select


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


@click.command()
@options
@click.option(
    "--profile", "name", default="quick", type=click.Choice(list(PROFILES)), help="quick: minutes; full: hours"
)
def main(data: Path, output: Path, work: Path | None, only: Sequence[str], name: str) -> None:
    """Run what is not done yet, and write the page of all that is there."""
    profile, archive = PROFILES[name], Archive(work or Path(f"output/studies/{name}/units.zip"))
    if (data / "yahoo-r3").is_dir():
        profile = replace(profile, data={**profile.data, **YAHOO})
    every = units(profile, data)
    chosen = select(every, only)
    configure_logging(for_people=True)
    run_units(build_session("studies"), chosen, archive)
    cells = archive.read(every)
    missing = [unit.name for unit in every if unit.name not in cells]
    write_page(profile, by_study(every, cells), output, f"make reproduce DATA=folder PROFILE={name}", missing)


if __name__ == "__main__":
    main()
