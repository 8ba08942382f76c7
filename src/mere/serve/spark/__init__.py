"""Spark Connect for others: passes on to Spark's own server what its clients ask, once they are let in."""
