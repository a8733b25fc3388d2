"""The job that evaluates a saved model: model + its training ratings + held-out ratings -> metrics and a report.

extract      the model (and a second one), ratings, test, titles
transform    validate ─ leave out what was seen or is unknown ─ predict and rank ─ explain ─ check the exposures
load         metrics, rejects, runs; report/report.html
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dcrec_spark.config import EvaluateConfig, ValidationConfig
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.jobs.evaluate.certainty import certainty_of
from dcrec_spark.jobs.evaluate.comparison import Comparison, compare
from dcrec_spark.jobs.evaluate.facts import Findings, report_facts, sample_users
from dcrec_spark.jobs.evaluate.inputs import Inputs, naming_test, open_inputs, test_input
from dcrec_spark.jobs.evaluate.measure import check_exposures, measure
from dcrec_spark.jobs.evaluate.strata import recorded
from dcrec_spark.jobs.inputs import input_line, model_line, require_model_path, validated_to_serve
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.saved_model import record_of
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.report.page import render

FOLDER, PAGE = "report", "report.html"


class Evaluate(Job[EvaluateConfig, Inputs, None]):
    """Measure a saved model on held-out ratings, with baselines and intervals, and write a report."""

    config_type = EvaluateConfig

    def check(self, config: EvaluateConfig) -> None:
        """Refuse a configuration that names no model, or no test."""
        require_model_path(config)
        test_input(config)

    def extract(self, context: Context[EvaluateConfig]) -> Inputs:
        """Load the models; open ratings, test and titles."""
        with context.reporter.step("load the models"):
            return open_inputs(context)

    def transform(self, context: Context[EvaluateConfig], inputs: Inputs) -> Outputs[None]:
        """Measure, explain, check, and put it all on one page."""
        run, step = context.run, context.reporter.step
        training = validated_to_serve(context, inputs.training)
        record = record_of(context.spark, inputs.saved.source)
        _note_other_data(run, record)
        with step("prepare the test"):
            settings = _for_test(context.config.validation)
            test = naming_test(lambda: validate(inputs.test, settings, to_fit=False))
            context.resources.callback(test.unpersist)
            comparison = compare(inputs.saved, inputs.other, training, test, context.resources)
            _note_test(run, comparison, test.counts["rejected"])
        with step("predict and rank"):
            measurements = measure(context, comparison)
            run.strata = recorded(measurements.strata)
        with step("explain"):
            samples = sample_users(context.config, comparison, measurements, inputs.titles)
        with step("check the exposures"):
            check = check_exposures(context, comparison)
        with step("say how sure"):
            certainty = certainty_of(context.config, comparison)
        with step("gather"):
            findings = Findings(comparison, measurements, check, certainty, samples, inputs.titles, record)
            page = render(report_facts(context.config, run, findings))
        tables = {"metrics": measurements.table(context.spark, run.run_id), "rejects": reject_table(training, run)}
        return Outputs(tables, None, {FOLDER: text_file(context.spark, PAGE, page)})

    def plan(self, context: Context[EvaluateConfig], inputs: Inputs) -> list[str]:
        """Name the ratings and the model."""
        return [input_line(context.config, inputs.training), model_line(inputs.saved)]

    def summary(self, context: Context[EvaluateConfig], finished: Finished[None]) -> RenderableType:
        """Show the usual facts, and where the report is."""
        report = f"{finished.directory.removeprefix('file://')}/{FOLDER}/{PAGE}"
        return Group(super().summary(context, finished), Text(f"report    {report}", overflow="fold"))


def _for_test(config: ValidationConfig) -> ValidationConfig:
    """Lift the limits on how many ratings a user or an item has: they are for fits."""
    limits = {"min_ratings_per_user": 1, "min_ratings_per_item": 1, "max_ratings_per_user": None}
    return config.model_copy(update=limits)


def _note_other_data(run: Run, record: Mapping[str, Any] | None) -> None:
    """Warn where the input is not what the model was fitted to. record : ``run.json`` of the model's run."""
    if record is not None and record["data_fingerprint"] != run.data_fingerprint:
        run.warnings.append(
            f"the training ratings (input) are not those that run {record['run_id']} fitted the model to: what was "
            "seen, the baselines and the check of the exposures go by other data than the model"
        )


def _note_test(run: Run, comparison: Comparison, rejected: int) -> None:
    run.counts |= {
        "test_ratings": comparison.n_test,
        "test_rejected": rejected,
        "test_overlap": comparison.overlap,
        "test_unknown": comparison.unknown,
        "test_items_missing": comparison.items_missing,
    }
