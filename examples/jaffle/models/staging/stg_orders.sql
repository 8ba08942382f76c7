-- description: Orders with a status that we know. The others wait in quarantine until somebody mends them.
-- key: order_id
-- contract:
--   order_id: {type: bigint, nullable: false}
--   customer_id: {type: bigint, nullable: false}
--   order_date: {type: date, nullable: false}
--   status: string
-- audits:
--   - relationships: {column: customer_id, to: staging.stg_customers}
--   - accepted_values: {column: status, values: [placed, shipped, completed, return_pending, returned]}
--     quarantine: true
--     max_bad: 10
SELECT id AS order_id, user_id AS customer_id, order_date, lower(trim(status)) AS status
FROM seeds.raw_orders
