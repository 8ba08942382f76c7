"""What a declared key promises, as an audit: a model has it without writing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mere.audits.audit import Audit
from mere.audits.rules import Key, Severity
from mere.entries import Entry
from mere.project.model import VALID_FROM, Kind


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
        """`by_key`: rows are written by their key, so that none can stand twice."""
        if self.setting is KeyAudit.OFF or (kind is Kind.APPEND and self.setting is None):
            return ()
        whole = kind is not Kind.INCREMENTAL or self.setting is KeyAudit.TABLE
        columns = (*self.columns, VALID_FROM) if kind is Kind.SCD2 else self.columns
        rule = Key(columns, built=by_key and self.setting is not KeyAudit.TABLE, whole=whole)
        severity = Severity.WARN if self.setting is KeyAudit.WARN else Severity.ERROR
        return (Audit(rule, self.file, self.line, severity),)
