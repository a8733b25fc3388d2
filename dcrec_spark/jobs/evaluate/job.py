"""The job that evaluates a saved model: model + its training ratings + held-out ratings -> metrics and a report.

extract      the model (and a second one), ratings, test, titles
transform    validate ─ leave out seen and unknown pairs ─ fit the baseline model ─ predict and rank ─ check
load         metrics, rejects, runs. report/report.html
"""

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.jobs import EvaluateConfig
from dcrec_spark.evaluation.measures import Measure, MeasureKind
from dcrec_spark.jobs.evaluate.facts import report_facts
from dcrec_spark.jobs.evaluate.measure import (
    TEST,
    EvaluateInputs,
    check_exposures,
    compare,
    measure,
    measure_certainty,
    open_inputs,
    test_input,
)
from dcrec_spark.jobs.inputs import ServingJob, validate_input, validate_other
from dcrec_spark.jobs.job import Context, Finished, Outputs
from dcrec_spark.jobs.saved_model import record_of
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.report.facts import ReportFacts
from dcrec_spark.report.page import interval, label, number, render

FOLDER, PAGE = "report", "report.html"


class Evaluate(ServingJob[EvaluateConfig, EvaluateInputs, ReportFacts]):
    """Measure a saved model on held-out ratings, with baselines and intervals, and write a report."""

    config_type = EvaluateConfig

    def check(self, config: EvaluateConfig) -> None:
        """Refuse a configuration that names no model, or no test."""
        super().check(config)
        test_input(config)

    def extract(self, context: Context[EvaluateConfig]) -> EvaluateInputs:
        """Load the models and open ratings, test and titles."""
        with context.reporter.step("load the models"):
            return open_inputs(context)

    def transform(self, context: Context[EvaluateConfig], inputs: EvaluateInputs) -> Outputs[ReportFacts]:
        """Measure and explain, and render the report."""
        config, run, step = context.config, context.run, context.reporter.step
        record = record_of(context.spark, inputs.saved.source) or {}
        training = validate_input(context, inputs.ratings)
        inputs.features.note(run, training.ratings)
        if record and record["data_fingerprint"] != run.data_fingerprint:
            run.warnings.append(
                f"the training ratings or features (input) are not those that run {record['run_id']} fitted the model "
                "to. Seen pairs, baselines and the check of the exposures are of other data than the model"
            )
        with step("compare the models"):
            test = validate_other(context, inputs.test, TEST)
            comparison = compare(inputs, training, test, context.resources, run.warnings)
            run.counts |= {
                "test_ratings": comparison.n_test,
                "test_rejected": test.counts["rejected"],
                "test_overlap": comparison.overlap,
                "test_unknown": comparison.unknown,
                "test_items_missing": comparison.items_missing,
            }
        with step("predict and rank"):
            measurements = measure(context, comparison)
        with step("check the exposures"):
            check = check_exposures(context, comparison)
        with step("measure the certainty"):
            certainty = measure_certainty(comparison)
        with step("write the report"):
            found = comparison, measurements, check, certainty
            facts = report_facts(config, run, *found, inputs.titles, record)
            page = render(facts)
        tables = {"metrics": measurements.table(context.spark, run.run_id), "rejects": reject_table(training, run)}
        return Outputs(tables, facts, {FOLDER: text_file(context.spark, PAGE, page)})

    def summary(self, context: Context[EvaluateConfig], finished: Finished[ReportFacts]) -> RenderableType:
        """Show the usual facts, the errors and lists of all models, and where the report is."""
        facts, page = finished.result, f"{finished.directory.removeprefix('file://')}/{FOLDER}/{PAGE}"
        measures = Measure(MeasureKind.MSE), Measure(MeasureKind.NDCG, facts.k, over_catalogue=True)
        table = Table("", label(measures[0]), f"{label(measures[1])} over the catalogue", box=SIMPLE_HEAD)
        for model, estimates in facts.estimates.items():
            found = [estimates.get(measure) for measure in measures]
            if any(found):
                table.add_row(model, *("" if one is None else f"{number(one.value)}  {interval(one)}" for one in found))
        return Group(super().summary(context, finished), table, Text(f"report    {page}", overflow="fold"))
