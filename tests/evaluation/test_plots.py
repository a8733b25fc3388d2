"""The predictive check's picture: the figures it shows, in files that a page can show, on light and on dark."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from pyspark.sql import SparkSession

from dcrec_spark import PredictiveCheck
from dcrec_spark.evaluation import plots
from dcrec_spark.evaluation.plots import plot_predictive_check
from tests.frames import frame_of


@pytest.fixture(scope="module")
def check(spark: SparkSession) -> PredictiveCheck:
    """Eight users, a quarter of them at the upper end."""
    p_values = [0.05, 0.3, 0.31, 0.5, 0.6, 0.8, 0.96, 0.97]
    users = frame_of(spark, [(str(p), p) for p in p_values], "id string, p_value double").coalesce(1)
    return PredictiveCheck(users, 0.995, 0.6, 0.56, -90.0, np.linspace(-120.0, -100.0, 21), 8, 30, users)


def test_panels_show_the_checks_figures(check: PredictiveCheck) -> None:
    figure = plot_predictive_check(check, bins=4)
    users, overall = figure.axes
    assert [bar.get_height() for bar in users.patches] == [1, 2, 2, 3]
    level, real = users.lines[0].get_ydata(), overall.lines[0].get_xdata()
    assert set(np.asarray(level)) == {2.0}
    assert set(np.asarray(real)) == {-3.0}
    assert sum(bar.get_height() for bar in overall.patches) == 21
    assert "do not trust a_hat" in figure.get_suptitle()
    assert overall.get_title() == "30 held-out exposures, p 0.995, spread 0.600"


@pytest.mark.parametrize("name", ["check.png", "check.svg"])
def test_it_is_saved_without_a_display(check: PredictiveCheck, tmp_path: Path, name: str) -> None:
    plot_predictive_check(check).savefig(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")


def test_the_background_is_the_pages(check: PredictiveCheck, tmp_path: Path) -> None:
    plot_predictive_check(check).savefig(tmp_path / "check.png")
    assert imread(tmp_path / "check.png")[0, 0, 3] == 0.0


@pytest.mark.parametrize("ink", [plots.INK, plots.FILL, plots.ACCENT])
@pytest.mark.parametrize("page", ["white", "#111418"])
def test_ink_stands_out_on_light_and_dark(ink: str, page: str) -> None:
    """A contrast of at least 3 to 1 (WCAG 2.1, graphics)."""

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    lower, higher = sorted((luminance(ink), luminance(page)))
    assert (higher + 0.05) / (lower + 0.05) >= 3.0
