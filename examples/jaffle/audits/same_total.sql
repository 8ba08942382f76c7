-- description: the totals of a column here and in the table it comes from, if they differ
SELECT ours.total AS here, theirs.total AS there
FROM (SELECT coalesce(sum({{ column }}), 0) AS total FROM {{ this }}) AS ours
CROSS JOIN (SELECT coalesce(sum({{ column }}), 0) AS total FROM {{ table }}) AS theirs
WHERE ours.total <> theirs.total
