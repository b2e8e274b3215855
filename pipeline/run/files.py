"""What a run directory holds at its top."""

import re

from pipeline.run.directory import LOG, Kind

MERGES_SO_FAR = "merges-so-far.parquet"  # of a merging that has not ended
COARSE = "superwords"  # the directory of the second count
RESULTS = ("merges.parquet", MERGES_SO_FAR, "report.txt", "report.json", "report.html")
_NAMES = (*RESULTS, "counts", "counter.parquet", COARSE, LOG)
RUN = Kind("run.json", re.compile("|".join([*map(re.escape, _NAMES), "tokenizer(-[0-9]+)?"])), format_version=1)
