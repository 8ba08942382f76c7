"""The audit that a declared key implies: a model has it without writing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mere.audits.audit import Audit
from mere.audits.rules import Key, Severity
from mere.entries import Entry
from mere.project.kinds import KeyCheck, Kind


class KeyAudit(StrEnum):
    """The setting `key_audit`. Without it, an audit of severity error, of as much as a build of the kind can break."""

    TABLE = "table"  # of all rows, whatever was built
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True)
class PromisedKey:
    columns: tuple[str, ...]
    file: str
    line: int
    setting: KeyAudit | None = None

    @classmethod
    def read(cls, found: Mapping[str, Entry]) -> PromisedKey | None:
        if "key" not in found or not (columns := found["key"].texts()):
            return None
        setting = KeyAudit(found["key_audit"].choice(*KeyAudit)) if "key_audit" in found else None
        return cls(columns, str(found["key"].file), found["key"].line, setting)

    def audits(self, kind: Kind, by_key: bool = False) -> tuple[Audit, ...]:
        """`by_key`: rows of a source are written by their key, so that none can stand twice."""
        check = kind.rules.key_check
        if self.setting is KeyAudit.OFF or (check is KeyCheck.NONE and self.setting is None):
            return ()
        of_table = self.setting is KeyAudit.TABLE
        built = (by_key or check is KeyCheck.BUILT) and not of_table
        columns = (*self.columns, *kind.rules.adds_to_key)
        rule = Key(columns, built=built, whole=of_table or check is not KeyCheck.WINDOWS)
        severity = Severity.WARN if self.setting is KeyAudit.WARN else Severity.ERROR
        return (Audit(rule, self.file, self.line, severity),)
