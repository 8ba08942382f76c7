-- description: Customers, with tidy names. A space more or less is no other name, and no version of its own in the history.
-- key: customer_id
-- audits:
--   - not_null: [customer_id, first_name, last_name]
SELECT id AS customer_id, trim(first_name) AS first_name, trim(last_name) AS last_name
FROM seeds.raw_customers
