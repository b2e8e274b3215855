"""The native kernel: any way of feeding a text gives the same pre-tokens, in time linear in the text."""

import random
import time
from functools import cache

import pytest
import regex
from amount import FULL
from pattern_texts import assert_cut_alike, assert_proved_cuts_change_nothing, texts

from bpe_pipeline import _core
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.pattern.presets import PRESETS

OTHERS = [r"foo|[a-z]+[0-9]?| ?[А-я]+|\n+(?!\S)", r"(?:ab)+c|a", r"\w+?(?=\s|$)|\s", r"\s*\n|\s", "(?s:.{3})"]
EACH = pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])


@cache
def native(pattern):
    return compile_pattern(pattern).automaton


@EACH
def test_resuming_with_a_small_budget_or_a_part_changes_nothing(pattern):
    rng = random.Random(3)
    for text in [*texts(400, longest=150, seed=2), *texts(1500, longest=60, seed=3)]:
        data = text.encode()
        batches = (1, 2, 33, 64) if len(data) > 60 else (1, 4096)
        assert_cut_alike(native(pattern), data, rng.randint(0, len(data)), batches)  # inside of a character, too


@EACH
def test_a_provable_cut_changes_no_pre_token_and_a_part_holds_back_little(pattern):
    data = "The quick brown fox, isn't it?\n  Über  日本語 12 345\n\n".encode() * 500
    assert pattern not in PRESETS or pattern == "none" or native(pattern).cut_part(data)[1] > len(data) - 20
    sample = texts(6000 if FULL else 2000, 30, 4)
    found = sum(assert_proved_cuts_change_nothing(native(pattern), text.encode()) for text in sample)
    assert pattern not in PRESETS or (found > 500) == (pattern != "none")


BROKEN = b"ab\xc3 cd\xff ef\xe6\x97 gh\xed\xa0\x80 ij\xf5\x80\x80\x80 kl"


@pytest.mark.parametrize(
    ("name", "data", "start", "stop", "cut"),
    [
        ("gpt2", b"letters and", 0, 11, 7),
        ("gpt2", b"letters and", 0, 7, None),
        ("gpt2", b"letters and", 8, 11, None),
        ("none", b"letters and", 0, 11, None),
        *((name, b"ab cd", 0, 5, 2) for name in ("cl100k", "llama3", "qwen2", "qwen3.5", "o200k")),
        ("gpt2", BROKEN, 0, len(BROKEN), None),
        ("gpt2", BROKEN + b" m", 0, len(BROKEN) + 2, len(BROKEN)),
        ("gpt2", "日本語 x".encode(), 1, 12, 9),
        ("gpt2", b"", 0, 10, None),
    ],
)
def test_provable_cuts_are_between_valid_characters(name, data, start, stop, cut):
    assert native(name).find_provable_cut(data, start, stop) == cut


@EACH
def test_any_bytes_are_cut_without_reading_outside(pattern):
    some, rng = (*b"ab '\n1", 0x80, 0xBF, 0xC0, 0xC3, 0xE3, 0xF0, 0xF4, 0xF5, 0xFF), random.Random(5)
    for data in (b"", *(bytes(rng.choices(some, k=rng.randint(1, 40))) for _ in range(1500))):
        assert_cut_alike(native(pattern), data, len(data), (4096,))
        native(pattern).find_provable_cut(data, 0, 99)


@pytest.mark.parametrize("pattern", [r"aaab| ?d+|.", r"aab|[\s\S]"])
def test_pre_tokens_of_a_byte_that_may_change_fit_the_space_for_ends(pattern):
    """A long run in which the next byte could still join pre-tokens; the sanitizers see what is written behind."""
    chance = random.Random(4)
    automaton = compile_pattern(pattern).automaton
    for _ in range(100):
        kinds = ("c" * chance.randint(1, 8), ". " * 20, "a" * chance.randint(1, 600), "b", " d" * chance.randint(1, 60))
        text = "".join(chance.choices(kinds, k=40))
        expected = [match.end() for match in regex.finditer(pattern, text)]
        assert automaton.cut(text.encode(), batch=chance.choice([208, 256, 1024])) == expected


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("unit", [" ", "a", "\n", "1", "\n   ", "語", "\u0301"])
def test_no_text_of_one_kind_takes_quadratic_time(name, unit):
    """1 MB would take half an hour if each character looked at the rest."""
    data = unit.encode() * (1_000_000 // len(unit.encode()))
    started = time.process_time()
    assert len(native(name).cut(data)) >= 1
    ends, rest = native(name).cut_part(data)
    assert rest == (ends[-1] if ends else 0)
    assert time.process_time() - started < 15


def test_tables_travel_to_another_process_and_are_refused_where_they_do_not_fit_together():
    tables = compile_pattern("llama3").tables
    fields = vars(tables)
    assert all(isinstance(value, bytes | int) for value in fields.values())
    here, again = tables.native(), type(tables)(**fields).native()
    for text in texts(500):
        assert again.cut(text.encode()) == here.cut(text.encode())
    assert again.memory_bytes < 300_000
    for broken in (
        {"classes": 1},
        {"classes": fields["classes"] + 1},
        {"folded": fields["folded"][:-4]},
        {"folded": fields["folded"][:-3]},
        {"folded": b"\xff" * len(fields["folded"])},
        {"plain": b"\xff" * len(fields["plain"])},
        {"class_ids": b"\xff" * len(fields["class_ids"])},
        {"class_starts": bytes(len(fields["class_starts"]))},
        {"class_starts": b"", "class_ids": b""},
        {"tentative": b""},
        {"provable": b""},
    ):
        with pytest.raises(ValueError, match=r"automaton table|buffer of 4-byte integers"):
            _core.Automaton(**{**fields, **broken})
