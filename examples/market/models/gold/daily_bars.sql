-- kind: incremental
-- description: A bar for each stock and trading day, of all sessions.
-- time_column: date
-- grain: day
-- key: [date, ticker]
-- columns:
--   vwap: price by volume; NULL before the files had it
-- audits:
--   - not_null: [open, high, low, close, volume]
--   - assert: low <= least(open, close) AND high >= greatest(open, close)
--   - assert: regular_volume <= volume
--   - row_count: {min: 1}
SELECT
  date,
  ticker,
  min_by(open, window_start) AS open,
  max(high) AS high,
  min(low) AS low,
  max_by(close, window_start) AS close,
  sum(volume) AS volume,
  sum(CASE WHEN session = 'regular' THEN volume ELSE 0 END) AS regular_volume,
  sum(transactions) AS transactions,
  count(*) AS bars,
  CAST(sum(vwap * volume) / sum(CASE WHEN vwap IS NOT NULL THEN volume END) AS decimal(12, 4)) AS vwap
FROM silver.minute_aggs
WHERE date >= :start AND date < :end
GROUP BY date, ticker
