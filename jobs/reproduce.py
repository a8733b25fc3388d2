"""The paper's tables and figures on our solver, each beside the paper's own.

python jobs/reproduce.py --data DIR                      minutes: Coat and small simulations
python jobs/reproduce.py --data DIR --profile full       hours: all data sets, seeds, sweeps, placebos

DIR has coat/ (train.ascii, test.ascii), ml-100k/u.data, ml-1m/ratings.dat, and yahoo-r3/ where you have it.
What was done is kept under --work: the same command goes on after an interruption.
"""

import sys
from dataclasses import replace
from pathlib import Path

import click

from dcrec_spark.cli import configure_logging
from dcrec_spark.errors import DcrecError
from dcrec_spark.session import build_session
from dcrec_spark.studies.profiles import PROFILES, YAHOO
from dcrec_spark.studies.run import reproduce

ROOT = Path(__file__).resolve().parent.parent


@click.command(help=f"\b\n{__doc__}")
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="Data sets.")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="quick", show_default=True, help="How much.")
@click.option("--output", type=click.Path(path_type=Path), help="Page, tables, pictures; docs/studies/<profile>.")
@click.option("--work", type=click.Path(path_type=Path), help="What was done so far; output/studies/<profile>.")
@click.option("--only", multiple=True, help="Units whose names begin so, such as coat or dense; repeat at will.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
def main(data: Path, profile: str, output: Path | None, work: Path | None, only: tuple[str, ...], master: str) -> None:
    """Run what is not there yet, then write the page."""
    configure_logging(for_people=True)
    chosen = PROFILES[profile]
    if (data / "yahoo-r3").is_dir():
        chosen = replace(chosen, data={**chosen.data, "yahoo-r3": YAHOO})
    spark = build_session("reproduce", master, {"spark.sql.shuffle.partitions": "4"})
    try:
        page = reproduce(
            spark,
            chosen,
            data,
            work or ROOT / "output" / "studies" / profile,
            output or ROOT / "docs" / "studies" / profile,
            f"make reproduce DATA=folder PROFILE={profile}",
            only,
        )
    except DcrecError as error:
        click.echo(f"{error}", err=True)
        sys.exit(error.exit_code)
    click.echo(f"Written: {page}")


if __name__ == "__main__":
    main()
