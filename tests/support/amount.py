"""How much the slow tests do: a sample in `.ci/run`, everything in `.ci/full`."""

import os

FULL = bool(os.environ.get("BPE_PIPELINE_FULL"))
KILLS = 20 if FULL else 3  # of each case
