"""The job that evaluates a saved model: model + its training ratings + held-out ratings -> metrics and a report.

extract      the model (and a second one), ratings, test, titles
transform    validate ─ leave out seen and unknown pairs ─ fit the baseline model ─ predict and rank ─ check
load         metrics, rejects, runs. report/report.html
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dcrec_spark.config import EvaluateConfig
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.jobs.evaluate.comparison import (
    TEST,
    Comparison,
    EvaluateInputs,
    compare,
    open_inputs,
    test_input,
)
from dcrec_spark.jobs.evaluate.facts import report_facts
from dcrec_spark.jobs.evaluate.measure import check_exposures, measure, measure_certainty
from dcrec_spark.jobs.inputs import (
    input_line,
    model_line,
    name_setting,
    require_model_path,
    validate_to_serve,
    without_limits,
)
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.saved_model import record_of
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.report.page import render

FOLDER, PAGE = "report", "report.html"


class Evaluate(Job[EvaluateConfig, EvaluateInputs, None]):
    """Measure a saved model on held-out ratings, with baselines and intervals, and write a report."""

    config_type = EvaluateConfig

    def check(self, config: EvaluateConfig) -> None:
        """Refuse a configuration that names no model, or no test."""
        require_model_path(config)
        test_input(config)

    def extract(self, context: Context[EvaluateConfig]) -> EvaluateInputs:
        """Load the models and open ratings, test and titles."""
        with context.reporter.step("load the models"):
            return open_inputs(context)

    def transform(self, context: Context[EvaluateConfig], inputs: EvaluateInputs) -> Outputs[None]:
        """Measure and explain, and render the report."""
        config, run, step = context.config, context.run, context.reporter.step
        record = record_of(context.spark, inputs.saved.source) or {}
        training = validate_to_serve(context, inputs.training)
        _warn_of_other_data(run, record)
        with step("compare the models"):
            limits = without_limits(config.validation)
            test = name_setting(TEST, lambda: validate(inputs.test, limits, to_fit=False))
            context.resources.callback(test.unpersist)
            comparison = compare(inputs, training, test, context.resources)
            _record_test(run, comparison, test.counts["rejected"])
        with step("predict and rank"):
            measurements = measure(context, comparison)
        with step("check the exposures"):
            check = check_exposures(context, comparison)
        with step("measure the certainty"):
            certainty = measure_certainty(comparison)
        with step("write the report"):
            found = comparison, measurements, check, certainty
            page = render(report_facts(config, run, *found, inputs.titles, record))
        tables = {"metrics": measurements.table(context.spark, run.run_id), "rejects": reject_table(training, run)}
        return Outputs(tables, None, {FOLDER: text_file(context.spark, PAGE, page)})

    def plan(self, context: Context[EvaluateConfig], inputs: EvaluateInputs) -> list[str]:
        """Name the ratings and the model."""
        return [input_line(context.config, inputs.training), model_line(inputs.saved)]

    def summary(self, context: Context[EvaluateConfig], finished: Finished[None]) -> RenderableType:
        """Show the usual facts, and where the report is."""
        report = f"{finished.directory.removeprefix('file://')}/{FOLDER}/{PAGE}"
        return Group(super().summary(context, finished), Text(f"report    {report}", overflow="fold"))


def _warn_of_other_data(run: Run, record: Mapping[str, Any]) -> None:
    if record and record["data_fingerprint"] != run.data_fingerprint:
        run.warnings.append(
            f"the training ratings (input) are not those that run {record['run_id']} fitted the model to. Seen pairs, "
            "baselines and the check of the exposures are of other data than the model"
        )


def _record_test(run: Run, comparison: Comparison, rejected: int) -> None:
    run.counts |= {
        "test_ratings": comparison.n_test,
        "test_rejected": rejected,
        "test_overlap": comparison.overlap,
        "test_unknown": comparison.unknown,
        "test_items_missing": comparison.items_missing,
    }
