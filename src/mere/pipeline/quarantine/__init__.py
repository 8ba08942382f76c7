"""Bad rows, put aside when a table is built, and tried again when somebody asks for it."""
