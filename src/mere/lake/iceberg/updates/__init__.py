"""The next metadata of a table or view: updates, in the words of Iceberg's REST protocol, applied to its JSON."""
