-- kind: incremental
-- description: What yellow taxis did on a day.
-- time_column: day
-- grain: month
-- key: day
-- columns:
--   revenue: all that was paid, in dollars
--   tip_rate: of trips that were paid by card, on average
-- audits:
--   - assert: trips > 0 AND miles > 0
--   - row_count: {min: 28}
--   - max_change: 100%
--     severity: warn
SELECT
  CAST(pickup_datetime AS date) AS day,
  count(*) AS trips,
  sum(passenger_count) AS passengers,
  sum(trip_distance) AS miles,
  sum(total_amount) AS revenue,
  CAST(avg(duration_seconds) / 60 AS decimal(8, 1)) AS minutes_per_trip,
  CAST(avg(tip_rate) AS decimal(6, 3)) AS tip_rate
FROM silver.stg_yellow_trips
WHERE pickup_datetime >= :start AND pickup_datetime < :end
GROUP BY CAST(pickup_datetime AS date)
