-- kind: incremental
-- description: What was earned in an hour.
-- time_column: hour
-- grain: month
-- key: hour
-- columns:
--   hour: by the clock of New York, without a zone, as in silver.trips
-- audits:
--   - not_null: revenue
--   - assert: tips <= revenue
SELECT
  CAST(date_trunc('HOUR', picked_up_at) AS timestamp_ntz) AS hour,
  count(*) AS trips,
  sum(total) AS revenue,
  sum(tip) AS tips,
  CAST(avg(speed_mph) AS decimal(8, 1)) AS speed_mph
FROM silver.trips
WHERE picked_up_at >= :start AND picked_up_at < :end
GROUP BY CAST(date_trunc('HOUR', picked_up_at) AS timestamp_ntz)
