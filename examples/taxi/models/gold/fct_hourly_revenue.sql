-- kind: incremental
-- description: What was earned in an hour.
-- time_column: hour
-- grain: month
-- key: hour
-- columns:
--   hour: by the clock of New York, without a zone, as in silver.stg_yellow_trips
-- audits:
--   - not_null: revenue
--   - assert: tips <= revenue
SELECT
  CAST(date_trunc('HOUR', pickup_datetime) AS timestamp_ntz) AS hour,
  count(*) AS trips,
  sum(total_amount) AS revenue,
  sum(tip_amount) AS tips,
  CAST(avg(speed_mph) AS decimal(8, 1)) AS speed_mph
FROM silver.stg_yellow_trips
WHERE pickup_datetime >= :start AND pickup_datetime < :end
GROUP BY CAST(date_trunc('HOUR', pickup_datetime) AS timestamp_ntz)
