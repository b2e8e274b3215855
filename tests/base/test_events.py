"""Warnings of a program that listens to nothing else."""

import warnings

from bpe_pipeline.base.events import Advanced, Notice, warn_of


def test_warnings_are_one_line_and_other_events_are_silent() -> None:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        for event in (Notice("warning", "a\nb"), Notice("info", "c"), Advanced("counting", 1)):
            warn_of(event)
    assert [str(warning.message) for warning in issued] == ["a\\nb"]
