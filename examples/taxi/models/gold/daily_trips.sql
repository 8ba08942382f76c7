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
  CAST(picked_up_at AS date) AS day,
  count(*) AS trips,
  sum(passengers) AS passengers,
  sum(miles) AS miles,
  sum(total) AS revenue,
  CAST(avg(duration_seconds) / 60 AS decimal(8, 1)) AS minutes_per_trip,
  CAST(avg(tip_rate) AS decimal(6, 3)) AS tip_rate
FROM silver.trips
WHERE picked_up_at >= :start AND picked_up_at < :end
GROUP BY CAST(picked_up_at AS date)
