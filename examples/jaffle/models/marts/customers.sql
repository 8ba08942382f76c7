-- kind: merge
-- description: A customer, and what they bought.
-- key: customer_id
-- columns:
--   segment: prospect (no purchase yet), buyer, or regular
--   orders: all of them, also those that were returned
-- audits:
--   - not_null: [segment, orders, purchases, revenue]
--   - accepted_values: {column: segment, values: [prospect, buyer, regular]}
--   - assert: purchases <= orders
--   - assert: first_purchase <= last_purchase
--   - same_total: {column: revenue, table: marts.orders}
--   - row_count: {min: 1}
WITH bought AS (
  SELECT
    customer_id,
    count(*) AS orders,
    sum(CASE WHEN is_purchase THEN 1 ELSE 0 END) AS purchases,
    min(CASE WHEN is_purchase THEN order_date END) AS first_purchase,
    max(CASE WHEN is_purchase THEN order_date END) AS last_purchase,
    sum(revenue) AS revenue
  FROM marts.orders
  GROUP BY customer_id
)
SELECT
  c.customer_id,
  c.first_name,
  c.last_name,
  CASE
    WHEN coalesce(b.purchases, 0) = 0 THEN 'prospect'
    WHEN b.purchases < {{ var('regular_purchases') }} THEN 'buyer'
    ELSE 'regular'
  END AS segment,
  coalesce(b.orders, 0) AS orders,
  coalesce(b.purchases, 0) AS purchases,
  b.first_purchase,
  b.last_purchase,
  CAST(coalesce(b.revenue, 0) AS decimal(12, 2)) AS revenue
FROM staging.stg_customers AS c
LEFT JOIN bought AS b ON b.customer_id = c.customer_id
