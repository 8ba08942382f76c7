-- kind: merge
-- description: A customer, and what they bought.
-- key: customer_id
-- columns:
--   number_of_orders: all of them, also those that were returned, as of first_order and most_recent_order
--   customer_lifetime_value: all that they ever paid, also for what they returned, and by coupon
--   segment: prospect (no purchase yet), buyer, or regular
--   revenue: what we earned with them
-- audits:
--   - not_null: [segment, number_of_orders, customer_lifetime_value, purchases, revenue]
--   - accepted_values: {column: segment, values: [prospect, buyer, regular]}
--   - assert: purchases <= number_of_orders
--   - assert: first_order <= first_purchase AND first_purchase <= last_purchase AND last_purchase <= most_recent_order
--   - assert: revenue <= customer_lifetime_value
--   - same_total: {column: revenue, table: marts.orders}
--   - row_count: {min: 1}
WITH bought AS (
  SELECT
    customer_id,
    min(order_date) AS first_order,
    max(order_date) AS most_recent_order,
    count(*) AS number_of_orders,
    sum(amount) AS amount,
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
  b.first_order,
  b.most_recent_order,
  coalesce(b.number_of_orders, 0) AS number_of_orders,
  CAST(coalesce(b.amount, 0) AS decimal(12, 2)) AS customer_lifetime_value,
  CASE
    WHEN coalesce(b.purchases, 0) = 0 THEN 'prospect'
    WHEN b.purchases < {{ var('regular_purchases') }} THEN 'buyer'
    ELSE 'regular'
  END AS segment,
  coalesce(b.purchases, 0) AS purchases,
  b.first_purchase,
  b.last_purchase,
  CAST(coalesce(b.revenue, 0) AS decimal(12, 2)) AS revenue
FROM staging.stg_customers AS c
LEFT JOIN bought AS b ON b.customer_id = c.customer_id
