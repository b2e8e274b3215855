"""The command `bpe-pipeline`: it runs the package `pipeline`, or says that this name means something else here."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        import pipeline

        is_ours = "train_from_counts" in dir(pipeline)
    except Exception:  # what another program's module raises
        is_ours = False
    if is_ours:
        from pipeline.__main__ import main as run

        return run()
    from importlib.util import find_spec

    found = find_spec("pipeline")
    where = found and (found.origin or ", ".join(found.submodule_search_locations or ()))
    reason = f"`import pipeline` finds {where} here, not the package of bpe-pipeline"
    sys.stderr.write(f"bpe-pipeline: error: {reason}: leave its directory out of PYTHONPATH, or rename it\n")
    return 1
