"""The native kernel: any way of feeding a text gives the same pieces, in time linear in the text."""

import random
import time

import pytest
import regex
from pattern_texts import texts

from pipeline import _core
from pipeline.pattern import PRESETS, compile_pattern

OTHERS = [r"foo|[a-z]+[0-9]?| ?[А-я]+|\n+(?!\S)", r"(?:ab)+c|a", r"\w+?(?=\s|$)|\s", r"\s*\n|\s", "(?s:.{3})"]


def native(pattern):
    return compile_pattern(pattern).automaton


@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_resuming_with_a_small_budget_changes_nothing(pattern):
    automaton = native(pattern)
    for text in texts(400, longest=150, seed=2):
        data = text.encode()
        whole = automaton.cut(data)
        assert whole[-1] == len(data)
        assert whole == sorted(set(whole))
        for batch in (1, 2, 33, 64):
            assert automaton.cut(data, batch=batch) == whole


@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_groups_of_ascii_are_cut_like_single_characters(pattern):
    """Boundaries at every place of a group of 16 and across two; a batch of one end leaves it to the plain table."""
    automaton = native(pattern)
    rng = random.Random(6)
    for alphabet in (b"a1", b"a ", b"a1.", b" \n", b"ab 1.,'\n", b"foo[a-z]abc19 \n's\xc3\xa9"):
        for _ in range(300):
            data = bytes(rng.choices(alphabet, k=rng.randint(16, 100))).decode(errors="replace").encode()
            whole = automaton.cut(data, batch=1)
            assert automaton.cut(data) == whole
            ends, _ = automaton.cut_part(data)
            assert ends == whole[: len(ends)]


@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_a_part_gives_the_pieces_that_nothing_after_it_can_change(pattern):
    automaton = native(pattern)
    rng = random.Random(3)
    for text in texts(1500, longest=60, seed=3):
        data = text.encode()
        whole = automaton.cut(data)
        for batch in (1, 4096):
            stop = rng.randint(0, len(data))  # inside of a character, too
            ends, rest = automaton.cut_part(data[:stop], batch=batch)
            assert ends == whole[: len(ends)]
            assert rest == (ends[-1] if ends else 0)
            assert [rest + end for end in automaton.cut(data[rest:])] == whole[len(ends) :]


@pytest.mark.parametrize("pattern", PRESETS)
def test_a_part_holds_back_little(pattern):
    """Of a long text without long pieces nearly everything is cut at once."""
    if pattern != "none":
        data = "The quick brown fox, isn't it?\n  Über  日本語 12 345\n\n".encode() * 500
        assert native(pattern).cut_part(data)[1] > len(data) - 20


@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_a_provable_cut_changes_no_piece(pattern):
    automaton = native(pattern)
    found = 0
    for text in texts(6000, longest=30, seed=4):
        data = text.encode()
        whole = automaton.cut(data)
        at = 0
        while (at := automaton.find_provable_cut(data, at + 1, len(data))) is not None:
            found += 1
            left, right = automaton.cut(data[:at]), automaton.cut(data[at:])
            assert left + [at + end for end in right] == whole
    assert pattern not in PRESETS or (found > 1000) == (pattern != "none")


def test_where_the_named_patterns_prove_a_cut():
    assert native("gpt2").find_provable_cut(b"letters and", 0, 11) == 7
    assert native("gpt2").find_provable_cut(b"letters and", 0, 7) is None
    assert native("gpt2").find_provable_cut(b"letters and", 8, 11) is None
    assert native("none").find_provable_cut(b"letters and", 0, 11) is None
    for name in ("cl100k", "llama3", "qwen2", "qwen3.5", "o200k"):
        assert native(name).find_provable_cut(b"ab cd", 0, 5) == 2


def test_provable_cuts_stand_between_valid_characters_only():
    automaton = native("gpt2")
    broken = b"ab\xc3 cd\xff ef\xe6\x97 gh\xed\xa0\x80 ij\xf5\x80\x80\x80 kl"
    assert automaton.find_provable_cut(broken, 0, len(broken)) is None
    assert automaton.find_provable_cut(broken + b" m", 0, len(broken) + 2) == len(broken)
    assert automaton.find_provable_cut("日本語 x".encode(), 1, 12) == 9


@pytest.mark.parametrize("pattern", [*PRESETS, *OTHERS])
def test_any_bytes_are_cut_without_reading_outside(pattern):
    automaton = native(pattern)
    rng = random.Random(5)
    for _ in range(1500):
        data = bytes(
            rng.choices((*b"ab '\n1", 0x80, 0xBF, 0xC0, 0xC3, 0xE3, 0xF0, 0xF4, 0xF5, 0xFF), k=rng.randint(1, 40))
        )
        ends = automaton.cut(data)
        assert ends[-1] == len(data)
        assert ends == sorted(set(ends))
        automaton.cut_part(data)
        automaton.find_provable_cut(data, 0, 99)


LONG = {
    "spaces": " ",
    "letters": "a",
    "line feeds": "\n",
    "digits": "1",
    "indents": "\n   ",
    "ideographs": "語",
    "marks": "\u0301",
}


@pytest.mark.parametrize("pattern", [r"aaab| ?d+|.", r"aab|[\s\S]"])
def test_pieces_of_a_byte_that_may_change_fit_the_space_for_ends(pattern):
    """A long run in which the next byte could still join pieces; the sanitizers see what is written behind."""
    chance = random.Random(4)
    automaton = compile_pattern(pattern).automaton
    for _ in range(100):
        kinds = ("c" * chance.randint(1, 8), ". " * 20, "a" * chance.randint(1, 600), "b", " d" * chance.randint(1, 60))
        text = "".join(chance.choices(kinds, k=40))
        expected = [match.end() for match in regex.finditer(pattern, text)]
        assert automaton.cut(text.encode(), batch=chance.choice([208, 256, 1024])) == expected


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("unit", LONG)
def test_no_text_of_one_kind_takes_quadratic_time(name, unit):
    """1 MB would take half an hour if each character looked at the rest."""
    automaton = native(name)
    data = LONG[unit].encode() * (1_000_000 // len(LONG[unit].encode()))
    started = time.process_time()
    assert len(automaton.cut(data)) >= 1
    ends, rest = automaton.cut_part(data)
    assert rest == (ends[-1] if ends else 0)
    assert time.process_time() - started < 15


def test_tables_travel_to_another_process():
    tables = compile_pattern("llama3").tables
    fields = {name: getattr(tables, name) for name in tables.__dataclass_fields__}
    assert all(isinstance(value, bytes | int) for value in fields.values())
    here, again = tables.native(), type(tables)(**fields).native()
    for text in texts(500):
        assert again.cut(text.encode()) == here.cut(text.encode())
    assert again.memory_bytes < 300_000


def test_tables_that_do_not_fit_together_are_refused():
    tables = compile_pattern("gpt2").tables
    fields = {name: getattr(tables, name) for name in tables.__dataclass_fields__}
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
        with pytest.raises(ValueError, match="automaton table"):
            _core.Automaton(**{**fields, **broken})


def test_an_empty_text_has_no_pieces():
    assert native("gpt2").cut(b"") == []
    assert native("gpt2").cut_part(b"") == ([], 0)
    assert native("gpt2").find_provable_cut(b"", 0, 10) is None
