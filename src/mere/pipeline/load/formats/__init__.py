"""Files of each format as Spark reads them, with the origin of each row."""
