"""What every test stands on. Fixtures of one part live beside its tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A shared machine can stall for a second at any moment: time is pytest-timeout's matter, not hypothesis'.
settings.register_profile("mere", deadline=None)
settings.load_profile("mere")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MERE_* settings stay out of the tests; MERE_HOME stays, because it has the jars."""
    for name in [name for name in os.environ if name.startswith("MERE_") and name != "MERE_HOME"]:
        monkeypatch.delenv(name)
