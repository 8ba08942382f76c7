"""The words that all parts of the server share: statements, results, types, errors."""
