"""A Spark that stays up between commands: how it is kept, found and watched."""
