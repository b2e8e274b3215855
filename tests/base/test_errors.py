"""Messages of errors: one line, the value that is wrong, and the remedy."""

import pytest

from bpe_pipeline.base.errors import InputError, PipelineError, UsageError, os_error_as, shown, unfit


def test_messages_are_one_line() -> None:
    assert str(InputError("a\nb\x1b")) == "a\\nb\\u001b"


@pytest.mark.parametrize(("kind", "code"), [(PipelineError, 1), (InputError, 1), (UsageError, 2)])
def test_usage_errors_have_their_own_exit_code(kind: type[PipelineError], code: int) -> None:
    assert kind.exit_code == code


def test_values_are_shown_in_at_most_80_characters() -> None:
    assert shown("a  b") == "'a b'"
    assert shown("x" * 200) == "'" + "x" * 76 + "..."
    assert shown("s3://me:key@b") == "'s3://***@b'"


def test_values_without_a_text_are_shown_by_their_type() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown(Silent()) == "such Silent"


def test_an_unfit_value_is_named_with_what_is_expected() -> None:
    assert str(unfit("workers", "a whole number", "x")) == "workers: expected a whole number, not 'x'"


def test_errors_of_the_system_get_a_location_and_a_remedy() -> None:
    with (
        pytest.raises(InputError, match=r"^a\.txt cannot be read: No such file or directory; name another$"),
        os_error_as(InputError, "a.txt cannot be read", "name another"),
    ):
        raise FileNotFoundError(2, "No such file or directory")
