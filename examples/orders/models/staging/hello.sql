-- kind: merge
-- description: The smallest model there is.
-- key: id
-- audits: [{unique: id}]
SELECT 1 AS id, 'hello' AS greeting
