"""Data outside the lake: what a source declares, what it offers, and how it is fetched."""
