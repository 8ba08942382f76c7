"""The JVM that Spark runs in: which Java, which jars, and how it starts."""
