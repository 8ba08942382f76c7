-- description: How far it is from one zone to another, by all trips that were ever made.
-- key: [pickup_location_id, dropoff_location_id]
-- columns:
--   pickup_zone: its name, or unknown
--   dropoff_zone: its name, or unknown
--   miles: of all trips together
-- audits:
--   - not_null: [pickup_zone, dropoff_zone]
--   - assert: shortest <= median_miles AND median_miles <= longest
--   - row_count: {min: 1, max: 70225}
WITH ranked AS (
  SELECT
    pickup_location_id,
    dropoff_location_id,
    trip_distance,
    row_number() OVER (PARTITION BY pickup_location_id, dropoff_location_id ORDER BY trip_distance NULLS LAST) AS place,
    count(trip_distance) OVER (PARTITION BY pickup_location_id, dropoff_location_id) AS places
  FROM silver.stg_yellow_trips
), pairs AS (
  SELECT
    pickup_location_id,
    dropoff_location_id,
    count(*) AS trips,
    sum(trip_distance) AS miles,
    CAST(avg(trip_distance) AS decimal(10, 2)) AS mean_miles,
    -- Of the one or two in the middle, as decimals. median() computes with doubles, and is slow with many groups.
    CAST(avg(CASE WHEN 2 * place BETWEEN places AND places + 2 THEN trip_distance END) AS decimal(10, 2))
      AS median_miles,
    min(trip_distance) AS shortest,
    max(trip_distance) AS longest
  FROM ranked
  GROUP BY pickup_location_id, dropoff_location_id
)
SELECT
  t.pickup_location_id,
  t.dropoff_location_id,
  coalesce(p.zone, 'unknown') AS pickup_zone,
  coalesce(d.zone, 'unknown') AS dropoff_zone,
  p.borough AS pickup_borough,
  d.borough AS dropoff_borough,
  t.trips,
  t.miles,
  t.mean_miles,
  t.median_miles,
  t.shortest,
  t.longest
FROM pairs AS t
LEFT JOIN raw.taxi_zones AS p ON p.location_id = t.pickup_location_id
LEFT JOIN raw.taxi_zones AS d ON d.location_id = t.dropoff_location_id
