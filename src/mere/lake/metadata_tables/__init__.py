"""Metadata tables: what a table's metadata says of it, and what the lake's database says of the lake, as rows.

`of_table` makes those of one table (`gold.orders$files`), `of_lake` mere's own (`mere.commits`). Both are read as they
are asked for: nothing is collected that a reader has not taken.
"""
