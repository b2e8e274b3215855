"""JSON Lines: each record is read as the standard json reads it, whatever the blocks; what is skipped is reported."""

import json
import re
from itertools import accumulate, pairwise

import pytest
from amount import FULL
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bpe_pipeline.base.errors import InputError
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.formats import lines as line_reader
from bpe_pipeline.corpus.formats.lines import parse_lines, read_json_lines, whole_lines

DECODER = json.JSONDecoder(parse_int=float)  # `int` refuses numbers of many digits
FILE = CorpusFile("a.jsonl", 0, 0, "", "jsonl")
SOME = settings(max_examples=1000 if FULL else 60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def texts_of(records):
    offsets = records.starts.tolist()
    data = bytes(records.data)
    assert len(offsets) >= records.rows + 1
    return [data[start:stop] for start, stop in pairwise(offsets)][: records.rows]


def lost_of(records):
    return {skipped.kind: (skipped.count, list(skipped.positions)) for skipped in records.skipped}


def parsed(lines, field="text"):
    found = parse_lines(lines, 0, field)
    return texts_of(found), lost_of(found)


# An escaped backslash, a pair of surrogates, or (the group) a surrogate alone.
SURROGATES = re.compile(
    rb"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)


def expected(lines, names=("text",)):
    """A line at a time by the standard json; an escaped surrogate without its other half is an invalid byte."""
    texts, lost, at = [], {}, 0
    for line in lines.split(b"\n"):
        start, at = at, at + len(line) + 1
        record = line.strip(b" \t\r")
        if not record:
            continue
        kind, text = "", b""
        record = SURROGATES.sub(lambda found: b"\xff" if found[1] else found[0], record)
        try:
            value = DECODER.decode(record.decode(errors="surrogateescape"))
            if not isinstance(value, dict):
                raise ValueError
        except ValueError:
            kind = "records_not_json"
        else:
            for name in names:
                value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                kind = "records_without_field"
            elif not isinstance(value, str):
                kind = "records_not_text"
            else:
                text = value.encode(errors="surrogateescape")
        texts.append(text)
        if kind:
            count, positions = lost.get(kind, (0, []))
            lost[kind] = (count + 1, [*positions, start][:8])
    return texts, lost


ODD_RECORDS = [
    b"", b" ", b"\r", b"{}", b"{", b"}", b"nonsense", b'{"text":"a"}{"text":"b"}', b'{"text":"a"} ',
    b'\t{"text":"a"}', b'{"text":"a"}\r', b'{"text":"a","text":"b"}', b'{"text":"a","text":5}',
    b'{"te\\u0078t":"q"}', b'{"x":NaN}', b'{"x":-NaN}', b'{"x":Inf,"text":"a"}', b'{"x":[-Inf]}',
    b'{"x":-Infinity,"text":"a"}', b'{"x":01}', b'{"x":1e999}', b'{"text":"a"}\0}',
    b'{"x":' + b"9" * 4500 + b',"text":"a"}', b'{"text":"\\ud83d\\ude00"}', b'{"text":"\\ud83d"}',
    b'{"text":"\\\\ud83d"}', b'{"text":"\\ude00\\ud83d\\\\\\ud83dx"}', b'{"text":"\\uD83D\\\\uDE00"}',
    b'{"text":"a\tb"}', b'{"text":"\\x"}', b'{"x":1,}', b'{"a":{"text":"deep"}}', b'{"a":{"text":null}}',
    b'{"a":null}', b'{"a":3}', b'{"a":{}}', b'{"a":{"text":"one"},"a":{"text":"two"}}', b'{"text":', b'"b"}',
    b'{"x":[{}', b"{}]}", b"[1]", b'"text"', b"null", b'{"text":"Inf, -NaN :Inf,"}', b'\xef\xbb\xbf{"text":"a"}',
    b'{"text":"' + b"long " * 300 + b'"}',
]  # fmt: skip
ODD_TEXT = st.text(st.sampled_from('a"\\/\n\x00\x1f\x7f\u2028\ud800\udfff😀é'), max_size=6)
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), ODD_TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "a", "b"]), inner, max_size=3),
    max_leaves=6,
)
SIGNS = list(b'{}[]",:\\ \n\r-+.eE019nulNaInftrsu/\x00\x1f\x7f')
PARTS = [
    b"a", b"abcdefghijklmno", b"\\n", b"\\u00e9", b"\\u0000", b"\\ud83d", b"\\ude00", b"\\\\", b'\\"', b"\\/",
    b"\xff", "é".encode(), "😀".encode(), b"\\u12", b"\\uD83D\\uDE00", b"\\u123g", b"\\", b'"', b"\x1f", b"\x7f",
    b"\\b", b"\\t",
]  # fmt: skip
RECORD = st.one_of(
    st.builds(
        lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only).encode(errors="replace"),
        st.one_of(st.builds(lambda text, x: {"text": text, "x": x}, VALUE, VALUE), VALUE),
        st.booleans(),
    ),
    st.sampled_from(ODD_RECORDS),
)


DAMAGE = st.lists(st.tuples(st.integers(0, 999), st.sampled_from(SIGNS) | st.integers(0, 255)), max_size=3)


@SOME
@given(
    st.lists(RECORD, max_size=8), st.sampled_from([("text",), ("a", "text")]), st.sampled_from([b"\n", b"\r\n"]), DAMAGE
)
@example(ODD_RECORDS, ("text",), b"\n", [])
@example(ODD_RECORDS, ("a", "text"), b"\n", [])
@example([b'{"text":"a"}', b'{"text":', b'"b"}', b'{"text":"c"}{"text":"d"}'], ("text",), b"\n", [])
@example([b'{"text":"\\\\ud83d\\ude00"}', b'{"text":"\\ud83d\\ude00\\ud83d\\ud83d\\ude00"}'], ("text",), b"\n", [])
@example([b'{"text":"\\ud800"}', b'{"text":"\\udc80"}'], ("text",), b"\n", [])
def test_records_are_those_of_the_standard_json(records, names, newline, damage):
    lines, field = bytearray(newline.join(records)), ".".join(names)
    for at, byte in damage if lines else ():
        lines[at % len(lines)] = byte
    lines = bytes(lines)
    texts, _ = found = expected(lines, names)
    assert parsed(lines, field) == found
    alone = [parsed(record, field)[0] for record in lines.split(b"\n")]
    assert [text for each in alone for text in each] == texts


@SOME
@given(st.lists(RECORD, max_size=8), st.sampled_from(["text", "a.text"]), st.integers(1, 40))
def test_records_do_not_depend_on_the_blocks(records, field, size):
    lines = b'{"first": 1}\n' + b"\n".join(records)
    blocks = [lines[at : at + size] for at in range(0, len(lines), size)]
    found = list(read_json_lines(FILE, blocks, 0, field))
    texts, lost = expected(lines, field.split("."))
    assert [text for one in found for text in texts_of(one)] == texts
    for kind, (count, positions) in lost.items():
        parts = [lost_of(one).get(kind, (0, [])) for one in found]
        assert sum(part[0] for part in parts) == count
        assert [at for part in parts for at in part[1]][:8] == positions


@SOME
@given(st.lists(st.sampled_from(PARTS), max_size=24).map(b"".join), st.integers(0, 20))
@example(b"\\ud83d\\u0041\\ud83d\\ud83d\\ude00", 0)
def test_strings_of_any_escapes_are_read_as_the_standard_json_reads_them(text, before):
    """Escapes, quotes and control characters at every distance from where sixteen bytes are read at once."""
    record = b'{"x":"' + b"-" * before + b'","text":"' + text + b'","y":"' + text + b'"}'
    assert parsed(record) == expected(record)


@given(st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b" ")), max_size=9), st.integers(1, 7))
def test_lines_do_not_depend_on_the_blocks(lines, size):
    text = b"\n".join(lines)
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    found = list(whole_lines(blocks, 100, 7))
    assert [start for start, _ in found] == sorted(start for start, _ in found)
    assert all(text[start - 100 :].startswith(part or b"") for start, part in found)
    starts = accumulate((len(line) + 1 for line in lines), initial=100)
    too_long = [start for start, line in zip(starts, lines, strict=False) if len(line) > 7]
    assert [start for start, part in found if part is None] == too_long
    kept = b"".join(part.removesuffix(b"\n") + b"\n" for _, part in found if part is not None)
    expected_kept = b"".join(line + b"\n" for line in lines if len(line) <= 7)
    assert expected_kept in (kept, kept + b"\n")  # nothing is found of an empty last line


@pytest.mark.parametrize("other", [b"", b"\nnonsense"])
def test_invalid_bytes_are_kept_for_the_errors_policy_and_nesting_has_no_limit(other):
    assert parsed(b'{"text":"a\xff\xc3(\xed\xa0\x80 b"}' + other)[0][0] == b"a\xff\xc3(\xed\xa0\x80 b"
    broken = b'{"x":' + b"[" * 50_000
    assert parsed(broken + b"]" * 50_000 + b',"text":"a"}' + other)[0][0] == b"a"
    assert parsed(broken + other)[1]["records_not_json"][0] == 1 + bool(other)


def test_byte_order_mark_is_skipped_and_positions_are_bytes():
    blocks = [b'\xef\xbb\xbf{"text":"a"}\r\n\r\n', b'{"no":1}\n{"text":', b'"b"}']
    found = list(read_json_lines(FILE, blocks, 0, "text"))
    assert [(texts_of(one), one.position(0)) for one in found] == [([b"a"], 3), ([b""], 19), ([b"b"], 28)]
    assert [lost_of(one) for one in found] == [{}, {"records_without_field": (1, [19])}, {}]


@pytest.mark.parametrize(
    "text", [b"[\n", b'[{"text":"a"}]', b' \n[ {"text":"a"}]', b'{\n "text": "a"\n}', b'["a","b"]']
)
def test_json_that_is_not_json_lines_is_an_error(text):
    with pytest.raises(InputError, match=r"a\.jsonl is JSON but not JSON Lines.*--input-format text"):
        list(read_json_lines(FILE, [text], 0, "text"))


def test_record_over_the_limit_is_skipped_and_reported(monkeypatch):
    monkeypatch.setattr(line_reader, "MOST_LINE_BYTES", 50)
    lines = b'{"text":"a"}\n' + b'{"text":"' + b"x" * 60 + b'"}\n' + b'{"text":"b"}\n'
    found = list(read_json_lines(FILE, [lines[at : at + 9] for at in range(0, len(lines), 9)], 0, "text"))
    assert [text for one in found for text in texts_of(one)] == [b"a", b"b"]
    assert [lost_of(one) for one in found if one.skipped] == [{"records_too_long": (1, [13])}]
