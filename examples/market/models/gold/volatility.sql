-- kind: incremental
-- description: How much a stock moves from one close to the next, over the 30 days that end with the day.
-- time_column: date
-- grain: day
-- context: 34 days
-- key: [date, ticker]
-- columns:
--   daily_return: the logarithm of close / close before; none after more than 5 days without a trade
--   returns: how many of them there are in the 30 days
--   volatility: their standard deviation, for a year of 252 trading days; none before there are two
-- audits:
--   - assert: volatility >= 0
--   - assert: returns BETWEEN 0 AND 30
WITH closes AS (
  SELECT
    date,
    ticker,
    close,
    lag(close) OVER days AS close_before,
    lag(date) OVER days AS date_before
  FROM gold.daily_bars
  WHERE date >= :start - INTERVAL 34 DAYS AND date < :end
  WINDOW days AS (PARTITION BY ticker ORDER BY date)
),
moves AS (
  SELECT
    date,
    ticker,
    close,
    CASE WHEN datediff(date, date_before) <= 5 THEN ln(close / close_before) END AS daily_return
  FROM closes
)
SELECT
  date,
  ticker,
  close,
  round(daily_return, 6) AS daily_return,
  count(daily_return) OVER thirty_days AS returns,
  CASE WHEN count(daily_return) OVER thirty_days >= 2
    THEN round(stddev_samp(daily_return) OVER thirty_days * sqrt(252), 4) END AS volatility
FROM moves
WINDOW thirty_days AS (PARTITION BY ticker ORDER BY date RANGE BETWEEN INTERVAL 29 DAYS PRECEDING AND CURRENT ROW)
