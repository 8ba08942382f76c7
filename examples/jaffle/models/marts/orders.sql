-- kind: merge
-- description: An order, what it was worth and what we earned with it.
-- key: order_id
-- columns:
--   is_purchase: false if it was returned
--   amount: all of its payments
--   revenue: what we keep. Nothing of a returned order, and nothing of what a coupon paid
-- audits:
--   - not_null: [customer_id, order_date, amount, revenue]
--   - relationships: {column: customer_id, to: staging.stg_customers}
--   - assert: revenue BETWEEN 0 AND amount
--   - same_total: {column: amount, table: staging.stg_payments}
WITH paid AS (
  SELECT
    order_id,
    sum(amount) AS amount,
    sum(CASE WHEN payment_method = 'coupon' THEN amount ELSE 0 END) AS by_coupon
  FROM staging.stg_payments
  GROUP BY order_id
)
SELECT
  o.order_id,
  o.customer_id,
  o.order_date,
  o.status,
  o.status <> 'returned' AS is_purchase,
  CAST(coalesce(p.amount, 0) AS decimal(12, 2)) AS amount,
  CAST(CASE WHEN o.status = 'returned' THEN 0 ELSE coalesce(p.amount - p.by_coupon, 0) END AS decimal(12, 2)) AS revenue
FROM staging.stg_orders AS o
LEFT JOIN paid AS p ON p.order_id = o.order_id
