"""The line numbers of bad records. Spark splits files and does not count lines, so they are looked up afterwards, and
only in files that have bad records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mere.engine.frames import from_arrow
from mere.pipeline.load.formats.headers import opened
from mere.pipeline.load.formats.text import LINE, RAW
from mere.pipeline.write.table import expr
from mere.sources.source import Text
from mere.sql.spelling.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mere.pipeline.load.records import Rows

_BOM = b"\xef\xbb\xbf"
_PIECE = 1 << 20
# Of so many bad records the lines are told: nobody reads more of them, and each is brought to this machine.
_MOST = 100_000


def lines_of(path: Path, raws: Iterable[str], text: Text) -> dict[str, list[int]]:
    """The numbers, from 1 on, of the lines that read so. `raws`: each as often as it occurs, for the search ends with
    the last of them."""
    wanted = Counter(raws)
    left = wanted.total()
    found: dict[str, list[int]] = {}
    for number, line in enumerate(_lines(path) if left else (), start=1):
        raw = line.decode(text.encoding, errors="replace")
        if wanted[raw] > 0:
            wanted[raw] -= 1
            found.setdefault(raw, []).append(number)
            left -= 1
            if not left:
                break
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """Cut where Spark cuts them: at LF, CR and CRLF. The mark at the start of a file is no part of its first line."""
    with opened(path) as file:
        rest = file.read(len(_BOM)).removeprefix(_BOM)
        while piece := file.read(_PIECE):
            rest += piece
            if rest.endswith(b"\r"):  # its LF may be in the next piece
                rest += file.read(1)
            lines = rest.splitlines(keepends=True)
            rest = b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop()
            for line in lines:
                yield line.rstrip(b"\r\n") if line.endswith((b"\n", b"\r")) else line
        yield from rest.splitlines()


def with_lines(bad: DataFrame, rows: Rows, paths: Mapping[str, Path], spark: SparkSession) -> DataFrame:
    """The bad rows with their lines. Where one text stands on several lines of a file, each row gets one of them."""
    if rows.text is None:
        return bad
    import pyarrow as pa

    raws: dict[str, list[str]] = {}
    for portion, raw in bad.selectExpr(rows.portion, RAW).limit(_MOST).collect():
        raws.setdefault(portion, []).append(raw)
    found = [
        (portion, raw, nth, line)
        for portion, texts in raws.items()
        for raw, lines in lines_of(paths[portion], texts, rows.text).items()
        for nth, line in enumerate(lines, start=1)
    ]
    names, types = ("line_portion", "line_raw", "line_nth", "line"), (pa.string(), pa.string(), pa.int32(), pa.int64())
    columns = [pa.array([row[at] for row in found], kind) for at, kind in enumerate(types)]
    lines = from_arrow(spark, pa.table(dict(zip(names, columns, strict=True))))
    nth = f"row_number() OVER (PARTITION BY {rows.portion}, {RAW} ORDER BY {RAW}) AS nth"
    same = f"{rows.portion} = line_portion AND {RAW} = line_raw AND nth = line_nth"
    joined = bad.selectExpr("*", nth).join(lines, expr(same), "left")
    return joined.selectExpr(*(f"line AS {LINE}" if name == LINE else quoted(name) for name in bad.columns))
