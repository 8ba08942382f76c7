"""Minute bars, once each, in types to calculate with."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mere import model, table

EXCHANGE = "America/New_York"
OPENS, CLOSES = "09:30", "16:00"


@model(
    "silver.minute_aggs",
    kind="incremental",
    time_column="date",
    grain="day",
    key=["date", "ticker", "window_start"],
    sort_by=["ticker", "window_start"],
    description="A bar for each minute in which a stock was traded.",
    contract={
        "date": {"type": "date", "nullable": False, "description": "the trading day, in New York"},
        "ticker": {"type": "string", "nullable": False},
        "window_start": {"type": "timestamp", "nullable": False, "description": "the start of the minute, in UTC"},
        "session": {"type": "string", "description": "pre until 9:30, regular until 16:00, post after it, in New York"},
        "open": "decimal(12, 4)",
        "high": "decimal(12, 4)",
        "low": "decimal(12, 4)",
        "close": "decimal(12, 4)",
        "volume": "bigint",
        "transactions": "bigint",
        "vwap": {"type": "decimal(12, 4)", "description": "price by volume; NULL before the files had it"},
    },
    audits=[
        {"accepted_values": {"column": "session", "values": ["pre", "regular", "post"]}},
        {"assert": "low <= least(open, close) AND high >= greatest(open, close)"},
        {"assert": "volume > 0 AND low > 0"},
    ],
)
def minute_aggs(raw: DataFrame = table("bronze.minute_aggs", time="date")) -> DataFrame:
    # Not in the files of the first weeks, and so not in the table either until one has it.
    vwap = F.col("vwap") if "vwap" in raw.columns else F.lit(None)
    began_at = F.timestamp_micros(F.expr("window_start div 1000"))
    time = F.date_format(F.from_utc_timestamp(began_at, EXCHANGE), "HH:mm")
    return raw.select(
        "date",
        "ticker",
        began_at.alias("window_start"),
        F.when(time < OPENS, "pre").when(time < CLOSES, "regular").otherwise("post").alias("session"),
        *("open", "high", "low", "close", "volume", "transactions"),
        vwap.cast("decimal(12, 4)").alias("vwap"),
    ).distinct()
