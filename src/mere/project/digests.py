"""Contents by their digest."""

from __future__ import annotations

import hashlib


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
