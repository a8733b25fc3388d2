"""The tables of the contract, column by column."""

from datetime import date

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType

from dcrec_spark.errors import DcrecError
from dcrec_spark.publish import schemas
from tests.frames import frame_of


def test_columns_of_the_contract() -> None:
    assert schemas.recommendations(StringType(), LongType()).simpleString() == (
        "struct<user_id:string,rank:int,item_id:bigint,score:double,preference:double,confounder:double,"
        "model_version:string,run_id:string,run_date:date>"
    )
    assert schemas.recommendations(LongType(), LongType(), intervals=True).simpleString() == (
        "struct<user_id:bigint,rank:int,item_id:bigint,score:double,preference:double,confounder:double,"
        "low:double,high:double,extrapolates:boolean,odds_to_change:double,"
        "model_version:string,run_id:string,run_date:date>"
    )
    assert schemas.overlap("item", StringType()).simpleString() == (
        "struct<item_id:string,ratings:bigint,effective_ratings:double,smallest_propensity:double,mean_rating:double,"
        "mean_low:double,mean_high:double,odds:double,model_version:string,run_id:string,run_date:date>"
    )
    assert schemas.user_factors(LongType()).simpleString() == (
        "struct<id:bigint,features:array<double>,bias:double,slopes:array<double>,covariates:array<double>,"
        "gamma:double,exposure_shape:array<double>,exposure_rate:array<double>,model_version:string,run_id:string,run_date:date>"
    )
    assert "gamma" not in schemas.item_factors(LongType()).fieldNames()
    assert schemas.METRICS.fieldNames() == ["run_id", "model", "split", "metric", "value", "ci_low", "ci_high", "n"]
    assert schemas.REJECTS.simpleString() == "struct<raw:string,reasons:array<string>,run_id:string>"


def test_conform_orders_columns_and_refuses_others(spark: SparkSession) -> None:
    frame = frame_of(spark, [("r1", "x", ["why"])], "run_id string, raw string, reasons array<string>")
    assert_df_equality(schemas.conform(frame, schemas.REJECTS, "rejects"), frame.select("raw", "reasons", "run_id"))
    with pytest.raises(DcrecError, match=r"table rejects: missing columns \['raw'\], unexpected columns \['more'\]"):
        schemas.conform(frame.withColumnRenamed("raw", "more"), schemas.REJECTS, "rejects")
    wrong = frame_of(spark, [("r", "x", date(2026, 1, 1))], "run_id string, raw string, reasons date")
    with pytest.raises(DcrecError, match=r"column reasons: found date, expected array<string>"):
        schemas.conform(wrong, schemas.REJECTS, "rejects")
