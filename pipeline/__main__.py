"""The command `bpe-pipeline`, also `python -m pipeline`."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from pipeline.cli import run
    except ImportError as error:
        if "--debug" in sys.argv:
            raise
        sys.stderr.write(f"bpe-pipeline: error: {error}\n")
        return 1
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
