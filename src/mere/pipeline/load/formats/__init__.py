"""Files of each format as Spark reads them, with the place that each row came from."""
