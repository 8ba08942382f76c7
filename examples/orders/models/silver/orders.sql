-- kind: incremental
-- description: Completed orders, once each, with their city. What has no amount was never paid and is left out.
-- time_column: order_date
-- grain: day
-- key: order_id
-- key_audit: table
-- inputs:
--   raw.cities: {on_change: rebuild}
-- columns:
--   city: unknown if the order does not say
-- tags: [daily]
-- audits:
--   - not_null: [order_date, city, amount]
--   - relationships: {column: city_id, to: raw.cities}
--   - assert: amount > 0
SELECT DISTINCT
  o.order_id,
  CAST(o.ordered_at AS date) AS order_date,
  o.city_id,
  coalesce(c.name, 'unknown') AS city,
  coalesce(c.continent, 'unknown') AS continent,
  o.amount
FROM bronze.orders AS o
LEFT JOIN raw.cities AS c ON c.city_id = o.city_id
WHERE o.ordered_at >= :start AND o.ordered_at < :end
  AND {{ cleaned('o.status') }} = 'completed'
  AND o.amount IS NOT NULL
