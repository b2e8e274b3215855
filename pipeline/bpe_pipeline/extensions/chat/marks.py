"""Marks in the data of what is trained on: weight, train, loss_mask and the like, of a message or of a whole row.

They are followed. A row whose marks are neither 0 nor 1, or contradict each other, is dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bpe_pipeline.extensions.chat.kinds import NOT_UNDERSTOOD, DroppedError

ROW_MARKS = ("weight", "train", "training", "trainable", "loss_mask")  # 0 or false: its answers are not trained on
_MARKS = (*ROW_MARKS, "loss")  # of a message
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def trained_on(marked: Mapping[str, Any], names: Sequence[str] = _MARKS) -> bool | None:
    """Return whether a message or a row is marked to be trained on; None: no mark. `DroppedError` for another mark."""
    if marked.keys().isdisjoint(names):
        return None
    marks = {name: str(marked[name]).strip().lower() for name in names if marked.get(name) is not None}
    for name, mark in marks.items():
        if mark not in _TRUTHS:
            raise DroppedError(NOT_UNDERSTOOD, f"{name} {mark:.40}")
    found = {_TRUTHS[mark] for mark in marks.values()}
    if len(found) > 1:
        raise DroppedError(NOT_UNDERSTOOD, "marks that contradict each other")
    return found.pop() if found else None
