-- kind: merge
-- description: The smallest model there is.
-- key: id
SELECT 1 AS id, 'hello' AS greeting
