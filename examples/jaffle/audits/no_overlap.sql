-- description: versions of a key that hold beyond the beginning of the next one
SELECT {{ key }}, valid_from, valid_to, next_from
FROM (
  SELECT {{ key }}, valid_from, valid_to, lead(valid_from) OVER (PARTITION BY {{ key }} ORDER BY valid_from) AS next_from
  FROM {{ this }}
) AS versions
WHERE next_from IS NOT NULL AND (valid_to IS NULL OR valid_to > next_from)
