"""Marks in the data of what is trained on: weight, train, loss_mask and the like, of a message or of a whole row.

They are followed. A row whose marks are neither 0 nor 1, or contradict each other, is dropped.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bpe_pipeline.extensions.chat.kinds import NOT_TRAINED_ON, NOT_UNDERSTOOD, DroppedError

ROW_MARKS = ("weight", "train", "training", "trainable", "loss_mask")  # 0 or false: its answers are not trained on
_MARKS = (*ROW_MARKS, "loss", "trained_on")  # of a message
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def trained_on(marked: Mapping[str, Any], names: Sequence[str] = _MARKS) -> bool | None:
    """Return whether a message or a row is marked to be trained on; None: no mark. `DroppedError` for another mark."""
    marks = {name: marked[name] for name in names if marked.get(name) is not None}
    for name, mark in marks.items():
        if truth(mark) is None:
            raise DroppedError(NOT_UNDERSTOOD, f"{name} {mark!r:.40}")
    return common(map(truth, marks.values()))


def truth(mark: Any) -> bool | None:
    """Return what a mark means, also one that CSV or Arrow holds as a text or a number; None: neither 0 nor 1."""
    return _TRUTHS.get(str(mark).strip().lower())


def common(marks: Iterable[bool | None]) -> bool | None:
    """Return the one mark among these; raises `DroppedError` if they contradict each other."""
    found = {mark for mark in marks if mark is not None}
    if len(found) > 1:
        raise DroppedError(NOT_UNDERSTOOD, "marks that contradict each other")
    return found.pop() if found else None


def with_marks(conversation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a conversation whose messages say themselves which are trained on; raises `DroppedError` if none is."""
    if trained_on(conversation, ROW_MARKS) is False:
        raise DroppedError(NOT_TRAINED_ON)
    messages = conversation.get("messages") or ()
    marked = [turn(message, **message) if isinstance(message, Mapping) else message for message in messages]
    return {**conversation, "messages": marked}


def turn(marked: Mapping[str, Any], /, **members: Any) -> dict[str, Any]:
    """Return a message of these members that is trained on as `marked` says."""
    mark = trained_on(marked)
    return members if mark is None else {**members, "trained_on": mark}
