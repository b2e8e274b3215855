"""The rules of merging: the same in Python, in the core, and in the tests' definition."""

from dataclasses import fields

import pytest
from reference import TOKEN_RULES

from bpe_pipeline import _core
from bpe_pipeline.merges.rules import MergeRules, require_obeyed
from bpe_pipeline.run.options import RECORDS

NAMES = [rule.name for rule in fields(MergeRules)]
OF_SUPERWORDS = {"max_words", "no_colon"}
OF_PAIRS = {"min_frequency", "min_pre_token_count", "tie_break"}


def test_rule_that_the_core_or_python_misses_is_an_error() -> None:
    with pytest.raises(ImportError, match="the core differ in max_words; install again"):
        require_obeyed([name for name in NAMES if name != "max_words"])
    with pytest.raises(ImportError, match="the core differ in max_letters"):
        require_obeyed([*NAMES, "max_letters"])


def test_engine_obeys_every_rule() -> None:
    assert {*_core.engine_rules()} == {*NAMES}


def test_every_rule_but_those_of_superwords_is_an_option() -> None:
    assert {name for name in NAMES if name not in RECORDS} == OF_SUPERWORDS


def test_definition_knows_every_rule_of_a_token() -> None:
    assert {*NAMES} == OF_PAIRS | TOKEN_RULES.keys()
