-- kind: incremental
-- description: A bar for each stock and trading day, of all sessions.
-- time_column: day
-- grain: day
-- key: [day, ticker]
-- columns:
--   vwap: price by volume; NULL before the files had it
-- audits:
--   - not_null: [open, high, low, close, volume]
--   - assert: low <= least(open, close) AND high >= greatest(open, close)
--   - assert: regular_volume <= volume
--   - row_count: {min: 1}
SELECT
  day,
  ticker,
  min_by(open, began_at) AS open,
  max(high) AS high,
  min(low) AS low,
  max_by(close, began_at) AS close,
  sum(volume) AS volume,
  sum(CASE WHEN session = 'regular' THEN volume ELSE 0 END) AS regular_volume,
  sum(transactions) AS transactions,
  count(*) AS bars,
  CAST(sum(vwap * volume) / sum(CASE WHEN vwap IS NOT NULL THEN volume END) AS decimal(12, 4)) AS vwap
FROM silver.minute_bars
WHERE day >= :start AND day < :end
GROUP BY day, ticker
