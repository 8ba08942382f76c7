"""What a query says, without running it: no lake, no models, no engine.

Three readers follow the names in a query, because they differ in what they do when they do not know. `scopes` and what
stands on it (columns, keys, windows) follow a name only if it is certain which column it is: a wrong key or window
would lose rows. `lineage` follows every column that a name could be, and marks the guesses. `duckdb` refuses the query.
"""
