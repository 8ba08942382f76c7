"""The table `vals`: each row combines other values of every type. NULL, empty, NaN, negative, huge, not ASCII."""

from __future__ import annotations

SIDE = 23  # of the square of rows: at least as many as a type has values
_TEXTS = (
    *(
        "",
        "abc",
        "ABC",
        "a_b%c",
        "straße",
        "Zürich",
        "e\u0301",
        "日本",
        "12",
        "-7",
        " 2.5 ",
        " x ",
        "2024-02-29",
        "true",
    ),
    *("2024-02-29 13:14:15", "a,b,,c", "\t", "😀a", "naïve, 42 x", "nan", "2024-02-29T13:14:15+01:00", "b"),
)
_DATES = (
    "2024-02-29",
    "1970-01-01",
    "1969-12-31",
    "0010-01-01",
    "9990-12-31",
    "1582-10-04",
    "2019-12-30",
    "2020-01-01",
    "1900-03-01",
    "2024-01-31",
)
_TIMES = (
    *(
        "2024-02-29 13:14:15.678",
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2024-03-10 02:30:00",
        "0010-01-01 00:00:00",
    ),
    *("9990-12-31 23:59:59.999999", "1900-01-01 12:00:00.1", "2019-12-30 23:59:59.5", "2024-10-27 01:30:00"),
)

# Of each type: the start of its columns' names, and its values in Spark's SQL.
TYPES: dict[str, tuple[str, list[str]]] = {
    "boolean": ("b", ["true", "false"]),
    "int": ("i", ["0", "1", "-1", "2", "3", "7", "-7", "13", "100", "2147483647", "-2147483648"]),
    "bigint": (
        "l",
        ["0", "1", "-3", "7", "100", "1000000", "9223372036854775807", "-9223372036854775808", "4294967296"],
    ),
    "float": (
        "f",
        ["0", "'-0.0'", "1.5", "-2.5", "'0.1'", "'NaN'", "'Infinity'", "'-Infinity'", "'1e-30'", "'3.4e38'", "7"],
    ),
    "double": (
        "d",
        [
            "0",
            "'-0.0'",
            "1.5",
            "-2.5",
            "0.1",
            "2.675",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "'1e300'",
            "7",
            "1e15",
            "-0.001",
            "123456.789",
        ],
    ),
    "decimal(12,3)": ("n", ["0", "1.5", "-2.345", "0.005", "999999999.999", "2.675", "-0.001", "7", "-100", "0.1"]),
    "decimal(10,2)": ("m", ["0", "1.5", "-2.35", "99999999.99", "3", "-0.01", "12.34"]),
    "string": ("s", ["'" + text.replace("'", "\\'") + "'" for text in _TEXTS]),
    "date": ("t", [f"'{text}'" for text in _DATES]),
    "timestamp": ("z", [f"'{text}Z'" for text in _TIMES]),
    "timestamp_ntz": ("c", [f"'{text}'" for text in _TIMES]),
    "binary": ("x", ["X''", "X'00FF'", "X'616263'"]),
    "array<int>": ("ai", ["array()", "array(1, 2, 2, 3)", "array(5, NULL)", "array(-7)", "array(NULL)"]),
    "array<string>": ("as", ["array()", "array('a', 'b')", "array('', NULL, 'abc')"]),
    "array<double>": ("ad", ["array()", "array(1.5D, double('NaN'))", "array(-0.0D, NULL)"]),
    "map<string,int>": ("ms", ["map()", "map('abc', 1, 'b', NULL)", "map('', 2)"]),
    "struct<a:int,c:string>": ("st", ["named_struct('a', 1, 'c', 'x')", "named_struct('a', NULL, 'c', NULL)"]),
}
SIDES = ("1", "2", "3")


def column(type_: str, side: int) -> str:
    return f"{TYPES[type_][0]}{SIDES[side]}"


def columns() -> list[tuple[str, str]]:
    return [("r", "int"), *((column(type_, side), type_) for type_ in TYPES for side in range(3))]


def rows() -> list[list[str]]:
    """In Spark's SQL. The first two columns of two types have every pair of their values."""
    found = []
    for row in range(SIDE * SIDE):
        cells = [str(row)]
        for type_, (_, values) in TYPES.items():
            for at in (row // SIDE, row % SIDE, row * 7 + row // SIDE + 3):
                text = ["NULL", *values][at % (len(values) + 1)]
                cells.append(f"CAST({text} AS {type_})")
        found.append(cells)
    return found
