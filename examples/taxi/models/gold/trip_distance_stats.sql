-- description: How far it is from one zone to another, by all trips that were ever made.
-- key: [pickup_zone, dropoff_zone]
-- columns:
--   pickup: the name of the zone, or unknown
--   miles: of all trips together
-- audits:
--   - not_null: [pickup, dropoff]
--   - assert: shortest <= median_miles AND median_miles <= longest
--   - row_count: {min: 1, max: 70225}
WITH pairs AS (
  SELECT
    pickup_zone,
    dropoff_zone,
    count(*) AS trips,
    sum(miles) AS miles,
    CAST(avg(miles) AS decimal(10, 2)) AS mean_miles,
    CAST(median(CAST(miles AS double)) AS decimal(10, 2)) AS median_miles,
    min(miles) AS shortest,
    max(miles) AS longest
  FROM silver.trips
  GROUP BY pickup_zone, dropoff_zone
)
SELECT
  t.pickup_zone,
  t.dropoff_zone,
  coalesce(p.zone, 'unknown') AS pickup,
  coalesce(d.zone, 'unknown') AS dropoff,
  p.borough AS pickup_borough,
  d.borough AS dropoff_borough,
  t.trips,
  t.miles,
  t.mean_miles,
  t.median_miles,
  t.shortest,
  t.longest
FROM pairs AS t
LEFT JOIN bronze.taxi_zones AS p ON p.zone_id = t.pickup_zone
LEFT JOIN bronze.taxi_zones AS d ON d.zone_id = t.dropoff_zone
