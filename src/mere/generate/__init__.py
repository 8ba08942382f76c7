"""Data for the worked examples, from a seed: columns, sizes and dirt as in real files, without a network."""
