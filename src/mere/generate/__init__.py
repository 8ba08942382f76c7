"""The data of the worked examples, made from a seed: columns, sizes and dirt as in real files, without a network."""
