"""Lines for people cannot steer a terminal and hide what is secret."""

import pytest

from bpe_pipeline.base.printable import BYTE_CHARACTERS, BYTE_ORDER, printable, printable_lines, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("日本 é", "日本 é"),
        ("a\x1b[31m", "a\\u001b[31m"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\x7f\x9b", "\\u007f\\u009b"),
        ("a\u202eb\u2028c", "a\\u202eb\\u2028c"),
    ],
)
def test_controls_are_escaped_as_in_json(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines(["a\nb", "c"]) == "a\\nb\nc"


def test_passwords_and_queries_of_uris_are_hidden() -> None:
    text = "s3://me:key@b/k?sig=1&region=x cannot be read, see https://host/page"
    assert without_secrets(text) == "s3://***@b/k?sig=***&region=*** cannot be read, see https://host/page"


def test_the_byte_alphabet_has_every_byte_once() -> None:
    assert sorted(BYTE_ORDER) == list(range(256))
    assert len(set(BYTE_CHARACTERS.values())) == 256
    assert BYTE_CHARACTERS[ord(" ")] == "Ġ"
