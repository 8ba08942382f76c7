"""Data outside of the lake: what a source says of it, what there is of it, and how it is fetched."""
