-- description: How far it is from one zone to another, by all trips that were ever made.
-- key: [pickup_zone, dropoff_zone]
-- columns:
--   pickup: the name of the zone, or unknown
--   miles: of all trips together
-- audits:
--   - unique: [pickup_zone, dropoff_zone]
--   - not_null: [pickup, dropoff]
--   - assert: shortest <= median_miles AND median_miles <= longest
--   - row_count: {min: 1, max: 70225}
SELECT
  t.pickup_zone,
  t.dropoff_zone,
  coalesce(p.zone, 'unknown') AS pickup,
  coalesce(d.zone, 'unknown') AS dropoff,
  p.borough AS pickup_borough,
  d.borough AS dropoff_borough,
  count(*) AS trips,
  sum(t.miles) AS miles,
  CAST(avg(t.miles) AS decimal(10, 2)) AS mean_miles,
  CAST(median(t.miles) AS decimal(10, 2)) AS median_miles,
  min(t.miles) AS shortest,
  max(t.miles) AS longest
FROM silver.trips AS t
LEFT JOIN bronze.taxi_zones AS p ON p.zone_id = t.pickup_zone
LEFT JOIN bronze.taxi_zones AS d ON d.zone_id = t.dropoff_zone
GROUP BY t.pickup_zone, t.dropoff_zone, p.zone, d.zone, p.borough, d.borough
