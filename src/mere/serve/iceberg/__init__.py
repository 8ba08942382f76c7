"""The Iceberg REST catalog: every ref is a warehouse."""
