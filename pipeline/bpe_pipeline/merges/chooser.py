"""The chooser of a run's merges: what commands ask of an extension that chooses which pairs are merged.

`Extension.choosers` names its class by the kind of a run's source, whose `chosen_by` has the fields of that class. A
run without one is merged by counts alone.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from bpe_pipeline.run.options import Values

if TYPE_CHECKING:  # `info` asks choosers, too, and merges nothing
    from bpe_pipeline.merges.merge_worker import Learner


class Chooser(Protocol):
    """What an extension that chooses merges answers for one run."""

    KIND: ClassVar[str]  # of the run's source; in messages the subject that chooses
    TAKES: ClassVar[type[Values]]  # the options that a merge of such a run may be given
    REPLACED: ClassVar[dict[str, Any]]  # options of merging that are not those that the run stores

    def learner(self) -> "Learner":
        """Return what a worker learns the merges with."""

    def info(self) -> dict[str, Any]:
        """Return the facts that `info` adds to those of the run."""
