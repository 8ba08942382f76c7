"""A session of mere on a new lake, in a new process."""

from __future__ import annotations

import mere
from bench.sides.answer import answer
from bench.sides.small_table import work

lake = mere.Lake.create("lake")
with mere.session(lake, "main") as session:
    answer(work(session.spark))
