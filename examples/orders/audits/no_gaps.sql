-- description: days between the first and the last for which there is no row
SELECT day, next_day
FROM (
  SELECT {{ column }} AS day, lead({{ column }}) OVER (ORDER BY {{ column }}) AS next_day
  FROM (SELECT DISTINCT {{ column }} FROM {{ this }}) AS days
) AS pairs
WHERE datediff(next_day, day) > 1
