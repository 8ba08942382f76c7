-- kind: incremental
-- description: Orders and revenue of a day, and of the 30 days that end with it. A day without an order has no row.
-- time_column: order_date
-- grain: month
-- context: 29 days
-- key: order_date
-- audits:
--   - assert: orders >= 1 AND orders_30_days >= orders
--   - assert: revenue_30_days >= revenue
--   - same_total: {column: revenue, table: marts.orders}
WITH days AS (
  SELECT order_date, count(*) AS orders, sum(revenue) AS revenue
  FROM marts.orders
  WHERE order_date >= :start - INTERVAL 29 DAYS AND order_date < :end
  GROUP BY order_date
)
SELECT
  order_date,
  orders,
  revenue,
  sum(orders) OVER thirty_days AS orders_30_days,
  sum(revenue) OVER thirty_days AS revenue_30_days
FROM days
WINDOW thirty_days AS (ORDER BY order_date RANGE BETWEEN INTERVAL 29 DAYS PRECEDING AND CURRENT ROW)
