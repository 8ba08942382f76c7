"""Trips that took place, once each."""

from pyspark.sql import DataFrame

from mere import model, table

# What tells where a row came from: by it, a trip that stands there twice would be two.
TRACE = ("year", "month", "_source_file", "_loaded_at", "_run")


@model(
    "silver.stg_yellow_trips",
    kind="incremental",
    time_column="pickup_datetime",
    grain="month",
    sort_by=["pickup_datetime"],
    description="Trips that moved, took time and were not paid back, once each, with all amounts of the TLC.",
    contract={
        "vendor_id": "int",
        "pickup_datetime": {"type": "timestamp_ntz", "nullable": False, "description": "by the clock of New York"},
        "dropoff_datetime": {"type": "timestamp_ntz", "nullable": False, "description": "by the clock of New York"},
        "pickup_hour": {"type": "int", "description": "0 to 23"},
        "pickup_location_id": "int",
        "dropoff_location_id": "int",
        "passenger_count": {"type": "int", "description": "as the driver says; often unknown"},
        "trip_distance": {"type": "decimal(10, 2)", "description": "in miles"},
        "rate_code_id": {"type": "int", "description": "1 standard, 2 JFK, 3 Newark, 4 Nassau, 5 negotiated, 6 group"},
        "store_and_fwd_flag": {"type": "string", "description": "Y if the car held the trip before it sent it"},
        "payment_type": {"type": "int", "description": "as the TLC counts them"},
        "payment": {"type": "string", "description": "payment_type in words: card, cash, no charge, dispute or other"},
        "fare_amount": {"type": "decimal(10, 2)", "description": "by the meter, in dollars, as are all amounts"},
        "extra": {"type": "decimal(10, 2)", "description": "rush hours and nights"},
        "mta_tax": "decimal(10, 2)",
        "tip_amount": {"type": "decimal(10, 2)", "description": "by card; 0 for all others"},
        "tolls_amount": "decimal(10, 2)",
        "improvement_surcharge": "decimal(10, 2)",
        "total_amount": {"type": "decimal(10, 2)", "description": "all that was paid, without tips in cash"},
        "congestion_surcharge": {"type": "decimal(10, 2)", "description": "since 2019"},
        "airport_fee": {"type": "decimal(10, 2)", "description": "since 2020"},
        "cbd_congestion_fee": {"type": "decimal(10, 2)", "description": "since 2025"},
        "duration_seconds": "bigint",
        "speed_mph": {"type": "decimal(14, 1)", "description": "miles an hour, on average"},
        "tip_rate": {"type": "decimal(14, 4)", "description": "tip / fare, of trips that were paid by card"},
    },
    off={"missing-key": "two people may ride at the same time from one zone to another; only all columns tell"},
    audits=[
        {"assert": "trip_distance > 0 AND fare_amount >= 0 AND duration_seconds > 0"},
        {"assert": "pickup_hour BETWEEN 0 AND 23"},
        {"accepted_values": {"column": "payment", "values": ["card", "cash", "no charge", "dispute", "other"]}},
        {"relationships": {"column": "pickup_location_id", "to": "raw.taxi_zones", "key": "location_id"}},
        {"relationships": {"column": "dropoff_location_id", "to": "raw.taxi_zones", "key": "location_id"}},
        {"assert": "speed_mph <= 120", "severity": "warn", "allow": "1%"},
    ],
)
def stg_yellow_trips(raw: DataFrame = table("raw.yellow_trips", time="tpep_pickup_datetime")) -> DataFrame:
    took_place = "trip_distance > 0 AND fare_amount >= 0 AND tpep_dropoff_datetime > tpep_pickup_datetime"
    typed = (
        raw.where(took_place)
        .drop(*TRACE)
        .distinct()
        .selectExpr(
            "vendorid AS vendor_id",
            "tpep_pickup_datetime AS pickup_datetime",
            "tpep_dropoff_datetime AS dropoff_datetime",
            "hour(tpep_pickup_datetime) AS pickup_hour",
            "pulocationid AS pickup_location_id",
            "dolocationid AS dropoff_location_id",
            "CAST(passenger_count AS int) AS passenger_count",
            "CAST(trip_distance AS decimal(10, 2)) AS trip_distance",
            "CAST(ratecodeid AS int) AS rate_code_id",
            "store_and_fwd_flag",
            "CAST(payment_type AS int) AS payment_type",
            "CASE payment_type WHEN 1 THEN 'card' WHEN 2 THEN 'cash' WHEN 3 THEN 'no charge' WHEN 4 THEN 'dispute'"
            " ELSE 'other' END AS payment",
            "CAST(fare_amount AS decimal(10, 2)) AS fare_amount",
            "CAST(extra AS decimal(10, 2)) AS extra",
            "CAST(mta_tax AS decimal(10, 2)) AS mta_tax",
            "CAST(tip_amount AS decimal(10, 2)) AS tip_amount",
            "CAST(tolls_amount AS decimal(10, 2)) AS tolls_amount",
            "CAST(improvement_surcharge AS decimal(10, 2)) AS improvement_surcharge",
            "CAST(total_amount AS decimal(10, 2)) AS total_amount",
            "CAST(congestion_surcharge AS decimal(10, 2)) AS congestion_surcharge",
            "CAST(airport_fee AS decimal(10, 2)) AS airport_fee",
            "CAST(cbd_congestion_fee AS decimal(10, 2)) AS cbd_congestion_fee",
            "unix_timestamp(tpep_dropoff_datetime) - unix_timestamp(tpep_pickup_datetime) AS duration_seconds",
        )
    )
    return typed.selectExpr(
        "*",
        # Decimals: the sum of doubles depends on the order in which they come.
        "CAST(trip_distance * 3600 / duration_seconds AS decimal(14, 1)) AS speed_mph",
        "CAST(CASE WHEN payment = 'card' AND fare_amount > 0 THEN tip_amount / fare_amount END AS decimal(14, 4))"
        " AS tip_rate",
    )
