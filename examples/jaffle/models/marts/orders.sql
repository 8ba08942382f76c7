-- kind: merge
-- description: An order, what it was worth, how it was paid, and what we earned with it.
-- key: order_id
-- columns:
--   is_purchase: false if it was returned
--   amount: all of its payments; the four amounts before it are what was paid in each way
--   revenue: what we keep. Nothing of a returned order, and nothing of what a coupon paid
-- audits:
--   - not_null: [customer_id, order_date, amount, revenue]
--   - relationships: {column: customer_id, to: staging.stg_customers}
--   - assert: revenue BETWEEN 0 AND amount
--   - assert: credit_card_amount + coupon_amount + bank_transfer_amount + gift_card_amount = amount
--   - same_total: {column: amount, table: staging.stg_payments}
WITH paid AS (
  SELECT
    order_id,
    sum(CASE WHEN payment_method = 'credit_card' THEN amount ELSE 0 END) AS by_credit_card,
    sum(CASE WHEN payment_method = 'coupon' THEN amount ELSE 0 END) AS by_coupon,
    sum(CASE WHEN payment_method = 'bank_transfer' THEN amount ELSE 0 END) AS by_bank_transfer,
    sum(CASE WHEN payment_method = 'gift_card' THEN amount ELSE 0 END) AS by_gift_card,
    sum(amount) AS amount
  FROM staging.stg_payments
  GROUP BY order_id
)
SELECT
  o.order_id,
  o.customer_id,
  o.order_date,
  o.status,
  CAST(coalesce(p.by_credit_card, 0) AS decimal(12, 2)) AS credit_card_amount,
  CAST(coalesce(p.by_coupon, 0) AS decimal(12, 2)) AS coupon_amount,
  CAST(coalesce(p.by_bank_transfer, 0) AS decimal(12, 2)) AS bank_transfer_amount,
  CAST(coalesce(p.by_gift_card, 0) AS decimal(12, 2)) AS gift_card_amount,
  CAST(coalesce(p.amount, 0) AS decimal(12, 2)) AS amount,
  o.status <> 'returned' AS is_purchase,
  CAST(CASE WHEN o.status = 'returned' THEN 0 ELSE coalesce(p.amount - p.by_coupon, 0) END AS decimal(12, 2)) AS revenue
FROM staging.stg_orders AS o
LEFT JOIN paid AS p ON p.order_id = o.order_id
