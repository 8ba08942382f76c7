-- kind: scd2
-- description: Who a customer was, and in which segment, from when to when.
-- key: customer_id
-- audits:
--   - not_null: segment
--   - assert: valid_from < valid_to
--   - no_overlap: customer_id
SELECT customer_id, first_name, last_name, segment
FROM marts.customers
