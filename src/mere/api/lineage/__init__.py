"""Lineage of columns and of tables, as JSON, as a diagram or as a page."""
