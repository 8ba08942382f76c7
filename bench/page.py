"""docs/benchmarks.md, written from the results and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figures

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

Here you see how mere compares with other tools, and where it loses. `make bench` writes this page from
`bench/results/`; do not edit it. [bench/README.md](../bench/README.md) explains how the figures are measured.

A ratio is mere's figure divided by the peer's: below 1, mere is better. It is the median of paired runs (mere, peer,
peer, mere), with the quartiles in brackets. Times are medians, with the best in brackets; they are from one machine on
one day and promise nothing. CPU time and memory are summed over all processes, including the JVM.
"""

NAMES = {
    "wall": "wall time",
    "cpu": "CPU time",
    "rss": "peak memory",
    "diff_cpu": "CPU time of the diff",
    "files": "files written",
    "bytes": "bytes written",
    "metadata_bytes": "metadata bytes",
    "data_read_bytes": "bytes read",
    "data_written_bytes": "bytes of data written",
    "metadata_written_bytes": "bytes of metadata written",
    "models": "time of all models",
    "group_by": "group-by",
    "fetch": "fetch, text",
    "fetch_binary": "fetch, binary",
    "server_bytes": "peak memory of the server",
    "look_up": "look-up, p50",
    "look_up_p99": "look-up, p99",
    "clients": "1,000 look-ups by 50 clients",
    "clients_p50": "one of these, p50",
    "clients_p99": "one of these, p99",
    "select_1": "`SELECT 1`, each of all",
    "select_1_p50": "`SELECT 1`, p50",
    "select_1_p99": "`SELECT 1`, p99",
    "zone": "row by key, each of all",
    "zone_p50": "row by key, p50",
    "zone_p99": "row by key, p99",
    "long_p50": "load, p50",
    "long_p99": "load, p99",
    "once": "row by key and a new value, each of all",
    "once_p50": "row by key and a new value, p50",
    "once_p99": "row by key and a new value, p99",
}
for _kind, _name in (
    ("load", "load a table"),
    ("list", "list 1,000 tables"),
    ("commit", "load and commit"),
    ("commit_10", "load and commit ten"),
    ("branch", "a new branch"),
):
    for _part in ("p50", "p99"):
        NAMES |= {f"{_kind}_{_part}": f"{_name}, {_part}", f"{_kind}_16_{_part}": f"{_name}, 16 clients, {_part}"}


def page(results: Sequence[Figures]) -> str:
    verdicts = [(result, target) for result in results for target in result["targets"]]
    parts = [INTRODUCTION]
    if verdicts:
        parts.append("## Targets\n\n" + table(["figure", "target", "measured", "met"], map(verdict, verdicts)))
    parts += [section(result) for result in results]
    return "\n".join(parts)


def verdict(judged: tuple[Figures, dict[str, Any]]) -> list[str]:
    result, target = judged
    return [
        f"[{result['title']}](#{anchor(result['title'])}): {name(target['metric'])}",
        f"at most {limit(target)}",
        shown(target["metric"], target["figure"]) if target["absolute"] else ratio(target["figure"]),
        "yes" if target["met"] else "**no**",
    ]


def section(result: Figures) -> str:
    rows = [row(result, metric, figures) for metric, figures in result["metrics"].items() if figures["ours"]]
    return "\n".join([
        f"## {result['title']}\n",
        paragraph(result["about"]),
        table(["", result["ours"], result["peer"], "ratio", "target"], rows),
        footnote(result),
    ])  # fmt: skip


def row(result: Figures, metric: str, figures: dict[str, Any]) -> list[str]:
    targets = [target for target in result["targets"] if target["metric"] == metric]
    return [
        name(metric),
        side(metric, figures["ours"]),
        side(metric, figures["peer"]),
        spread(figures["ratio"]),
        "; ".join(f"{limit(target)} {'met' if target['met'] else '**missed**'}" for target in targets),
    ]


def footnote(result: Figures) -> str:
    machine, versions = result["machine"], result["versions"]
    noisy = f", {result['noisy_blocks']} of them noisy" if result["noisy_blocks"] else ""
    return paragraph(
        f"{result['measured']}, scale {result['scale']:g}, {result['blocks']} blocks{noisy}; {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}; "
        + ", ".join(f"{package} {version}" for package, version in versions.items())
        + "."
    )


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def table(heads: Sequence[str], rows: Any) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def name(metric: str) -> str:
    return NAMES.get(metric, metric)


def anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def limit(target: dict[str, Any]) -> str:
    return shown(target["metric"], target["at_most"]) if target["absolute"] else f"{target['at_most']:g} ×"


def ratio(value: float) -> str:
    if value < 0.1:
        return f"{value:.4f} ×"
    return f"{value:.2f} ×" if value < 10 else f"{value:.0f} ×"


def spread(figures: dict[str, float] | None) -> str:
    return f"{ratio(figures['median'])} ({figures['low']:.2f}–{figures['high']:.2f})" if figures else ""


def side(metric: str, figures: dict[str, float] | None) -> str:
    return f"{shown(metric, figures['median'])} ({shown(metric, figures['min'])})" if figures else ""


def shown(metric: str, value: float) -> str:
    if metric in ("files", "errors"):
        return f"{value:,.0f}"
    if metric == "rss" or metric.endswith("bytes"):
        return f"{value / 1e6:,.0f} MB" if value >= 1e7 else f"{value / 1e3:,.0f} kB"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def write(results: Sequence[Figures]) -> None:
    PAGE.write_text(page(results), encoding="utf-8")
