"""Read files of limited size: no file can use more memory than its kind needs, be it a pipe or a device.

Python limits the nesting of JSON and the digits of a number; both become an error that names the reason.
"""

import io
import json
from typing import Any

from pipeline.storage import Location, open_file, unreadable

CONFIG_BYTES = 1 << 18  # YAML needs up to five seconds for this size
MODEL_BYTES = 1 << 28  # a vocabulary of a million tokens takes about 80 MB
MANIFEST_BYTES = 1 << 28  # the listing of a million files takes about 200 MB


def read_bounded(where: Location, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OSError, and `ValueError` if there are more than `most_bytes`."""
    with io.BufferedReader(open_file(where)) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes >> 10:,} KiB, the most that such a file may be")
    return data


def read_json(where: Location, most_bytes: int | None = None) -> Any:
    """Return the value in a JSON file; `ValueError` with the reason if it is larger than `most_bytes`, or not JSON."""
    try:
        return json.loads(read_bounded(where, most_bytes or MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable(where, error) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
