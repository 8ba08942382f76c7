from __future__ import annotations

import pytest

from mere.project.files.settings import MODEL_KEYS
from mere.project.kinds import RULES, SETTINGS_OF_SOME, Kind
from mere.project.model import Input


@pytest.mark.parametrize("kind", Kind)
def test_the_table_has_a_row_for_every_kind_whose_settings_and_inputs_exist(kind: Kind) -> None:
    rules = kind.rules

    assert set(rules.settings) <= set(SETTINGS_OF_SOME) <= set(MODEL_KEYS)
    assert set(rules.inputs) <= set(Input.__dataclass_fields__)
    assert set(rules.adds_to_key) <= set(rules.adds)


def test_what_goes_by_the_key_needs_one() -> None:
    assert {kind for kind, rules in RULES.items() if rules.needs_key} == {
        kind for kind, rules in RULES.items() if rules.by_key
    }


def test_each_setting_of_some_kinds_is_one_of_a_kind_that_can_be_declared() -> None:
    declared = [rules for rules in RULES.values() if rules.declared]

    assert {key for rules in declared for key in rules.settings} == set(SETTINGS_OF_SOME)
    assert all(any(key not in rules.settings for rules in declared) for key in SETTINGS_OF_SOME)
