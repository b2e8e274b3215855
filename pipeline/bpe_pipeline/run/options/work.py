"""Options of how work is done, and where its result goes."""

from bpe_pipeline.base.units import parse_bytes, parse_whole_number
from bpe_pipeline.run import values as read
from bpe_pipeline.run.parts import AUTO, parse_part
from bpe_pipeline.run.record import IN_GROUPS, Values
from bpe_pipeline.storage import Location

*_others, _output, _resource, _other = IN_GROUPS


class WorkOptions(Values):
    """How any work is done."""

    workers: int | None = _resource(
        None,
        "number of worker processes; default: one per physical core (with Ray: all cores of the cluster)",
        "N",
        read=parse_whole_number(1, 4096),
    )
    memory_limit: int | None = _resource(
        None,
        "memory that all processes may use together (with Ray: on each node); default: 80 % of what is free",
        "SIZE",
        read=parse_bytes,
    )
    quiet: bool = _other(False, "print only errors and the final result", short="-q", command_only=True)
    log_json: bool = _other(
        False, "print progress and the log as one JSON object per line", advanced=True, command_only=True
    )


class RayOptions(Values):
    """Where workers run."""

    ray: str | None = _resource(
        None,
        "run on a Ray cluster: [ray://]HOST:PORT, or auto, which Ray finds",
        "[ADDRESS]",
        read=read.parse_ray,
        keyword=bool | str | None,
        alone="auto",
        examples=lambda: ("auto",),
    )


class ClusterOptions(RayOptions, WorkOptions):
    """How work is done that a cluster can do."""


class PartOptions(Values):
    """How the work of one directory is shared by processes."""

    part: str | None = _resource(
        None,
        "do the share of one of N processes; auto: by an array of Slurm or SGE; a command without it does the rest",
        "I/N",
        read=parse_part,
        advanced=True,
        examples=lambda: (AUTO,),
    )


class OverwriteOptions(WorkOptions):
    """What becomes of an earlier result."""

    overwrite: bool = _other(False, "start again where the output holds something else")


class OutputOptions(OverwriteOptions):
    """Where the result goes."""

    output: Location | None = _output(
        None,
        "the run directory to write or resume, a path or a URI; default: a new one under runs/",
        "DIR",
        short="-o",
        read=read.parse_output,
    )


class PlanOptions(Values):
    """Whether work is only planned."""

    dry_run: bool = _output(False, "print what would be done, and what it takes, and stop", command_only=True)
