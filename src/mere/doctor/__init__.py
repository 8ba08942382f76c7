"""`mere doctor`: tries every part of mere, and says what is wrong and how to fix it.

A check (`findings`) is a small function that gives a verdict; `checkup` lists them all, quick ones first. The others
have one module for each part that they look at.
"""

from __future__ import annotations

from mere.doctor.checkup import checks
from mere.doctor.context import Subject
from mere.doctor.findings import Check, Finding, State, examine

__all__ = ["Check", "Finding", "State", "Subject", "checks", "examine"]
