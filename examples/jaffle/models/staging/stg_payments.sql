-- description: Payments of orders that we know. Those of an order in quarantine wait there, too.
-- key: payment_id
-- contract:
--   payment_id: {type: bigint, nullable: false}
--   order_id: bigint
--   payment_method: string
--   amount: {type: "decimal(12, 2)", description: "in dollars, where the export has cents"}
-- audits:
--   - not_null: [order_id, amount]
--     quarantine: true
--   - relationships: {column: order_id, to: staging.stg_orders}
--     quarantine: true
--   - accepted_values: {column: payment_method, values: [credit_card, bank_transfer, gift_card, coupon]}
--     quarantine: true
--   - assert: amount >= 0
--     quarantine: true
--     max_bad: 10
SELECT
  id AS payment_id,
  order_id,
  lower(trim(payment_method)) AS payment_method,
  CAST(amount / 100.0 AS decimal(12, 2)) AS amount
FROM seeds.raw_payments
