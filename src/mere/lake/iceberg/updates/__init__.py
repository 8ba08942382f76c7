"""Applies the updates of Iceberg's REST protocol to the metadata of a table or view."""
