"""Files from anywhere are data: how much of one is read is bounded before anything in it is understood.

Nothing here or after it runs code that a file brings. Depth is bounded by Python's own limit on recursion, and the
digits of a number by its limit on them; whoever parses turns both into a line that names the file.
"""

import io

from pipeline.storage import Location, open_file

CONFIG_BYTES = 1 << 18  # YAML takes five seconds for so many, at worst
MODEL_BYTES = 1 << 28  # a vocabulary of a million tokens takes about 80 MB
MANIFEST_BYTES = 1 << 28  # the listing of a million files takes about 200 MB


def read_bounded(where: Location, most_bytes: int) -> bytes:
    """The bytes of a file, be it a pipe or a device; `ValueError` where there are more than `most_bytes`."""
    with io.BufferedReader(open_file(where)) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes >> 10:,} KiB, the most that such a file may be")
    return data
