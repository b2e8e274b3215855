"""The command `bpe-pipeline`, installed beside the package: starts it, or names the module found in its place."""

import sys
from importlib import import_module


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        import pipeline

        is_ours = "decode_shards" in getattr(pipeline, "_HOMES", ())
    except (Exception, SystemExit):  # what another program's module raises, which may be a script
        is_ours = False
    if is_ours:
        return int(import_module("pipeline.__main__").main())
    from importlib.util import find_spec

    spec = find_spec("pipeline")
    where = spec and (spec.origin or ", ".join(spec.submodule_search_locations or ()))
    reason = f"`import pipeline` finds {where} here, not the package of bpe-pipeline"
    sys.stderr.write(f"bpe-pipeline: error: {reason}: leave its directory out of PYTHONPATH, or rename it\n")
    return 1
