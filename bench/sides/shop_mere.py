"""The shop by `mere run` on a warm engine: all of it, and one model after an edit. Each is a command of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.sides.answer import answer
from bench.sides.shop import EDITED, MODELS, UNIQUE, VALUES, counts, edited, median_of, timed, write_orders
from mere.lake.lake import Lake

MERE = str(Path(sys.executable).with_name("mere"))
# It takes some runs until what they use is compiled: about as many as one does before lunch.
WARM_UP = 10


def audits(name: str) -> list[object]:
    column = UNIQUE[name]
    more: list[object] = []
    if name in VALUES:
        restricted, values = VALUES[name]
        more = [{"accepted_values": {"column": restricted, "values": list(values)}}]
    return [{"unique": column}, {"not_null": [column]}, *more]


def write(name: str, query: str) -> None:
    file = Path("models", *name.split(".")).with_suffix(".sql")
    file.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML.
    file.write_text(f"-- audits: {json.dumps(audits(name))}\n{query}\n", encoding="utf-8")


def edit(number: int) -> float:
    write(EDITED, edited(number + 1))
    return timed([MERE, "run"])


Path("mere.yaml").write_text("name: shop\n", encoding="utf-8")
write_orders(Path("seeds", "raw", "orders.csv"))
for model, text in MODELS.items():
    write(model, text)
Lake.create("lake").close()
timed([MERE, "engine", "start"])
try:
    timed([MERE, "run"])
    for _ in range(WARM_UP):
        timed([MERE, "run", "--full-refresh", "*"])
    whole = median_of(5, lambda _: timed([MERE, "run", "--full-refresh", "*"]))
    one = median_of(5, edit)
finally:
    timed([MERE, "engine", "stop"])
with Lake.open("lake") as lake:
    found = {}
    for model in MODELS:
        with lake.sql(counts(model)) as result:
            found[model] = [list(row) for row in result.rows()]
answer(found, whole=whole, edited=one)
