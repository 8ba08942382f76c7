"""Commands about the lake: refs, tables, history, files."""
