-- kind: incremental
-- description: Orders and revenue a day, with and without value-added tax.
-- time_column: order_date
-- grain: day
-- key: order_date
-- tags: [daily]
-- audits:
--   - assert: net <= revenue
--   - no_gaps: order_date
--   - max_change: 50%
--     severity: warn
SELECT
  order_date,
  count(*) AS orders,
  sum(amount) AS revenue,
  CAST(sum(amount) / (1 + {{ var('vat') }}) AS decimal(12, 2)) AS net
FROM silver.orders
WHERE order_date >= :start AND order_date < :end
GROUP BY order_date
