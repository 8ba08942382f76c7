-- kind: incremental
-- description: Every line of the export, as it came.
-- time_column: ordered_at
-- grain: day
-- off: {missing-key: lines come twice}
-- audits:
--   - not_null: amount
--     severity: warn
--     allow: 5%
SELECT order_id, city_id, ordered_at, amount, status
FROM raw.orders
WHERE ordered_at >= :start AND ordered_at < :end
