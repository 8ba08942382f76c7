"""Reads the files of an Iceberg table, whatever ref points to them."""
