"""What is made of what: column by column, or table by table; as JSON, as a drawing, as a page."""
