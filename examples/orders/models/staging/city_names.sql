-- kind: view
-- description: What other tools need to label a map.
SELECT city_id, name, country FROM raw.cities
