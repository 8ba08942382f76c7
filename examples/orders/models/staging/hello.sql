-- kind: merge
-- description: The smallest model there is.
-- key: id
SELECT 1 AS id, 'hello' AS name, TIMESTAMP '2024-02-01 09:00:00' AS created_at
