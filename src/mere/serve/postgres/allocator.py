"""What the C library does with freed memory."""

from __future__ import annotations

import ctypes

# The numbers of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 32 << 20  # bytes, of each thread


def keep_freed() -> None:
    """Some of it stays with the process: pieces of rows are encoded in the memory of those before them. Otherwise the
    system would take every page back and clear it again, which costs as much as the encoding. Only glibc is told."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
        library.mallopt(_MMAP_THRESHOLD, _KEPT // 4)
