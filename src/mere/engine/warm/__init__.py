"""A Spark that stays: how it is kept, found and watched."""
