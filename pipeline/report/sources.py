"""Names of the sources that texts come from: files where they are few, else what they lie in."""

from collections import Counter
from collections.abc import Sequence

_MOST = 12
_TOP, _OTHERS = "(not in a directory)", "(others)"


def source_names(paths: Sequence[str]) -> dict[str, str]:
    """A name for the source of each path, at most 12 different ones.

    Up to 12 files go by their own names below the directory that is common to all; more by the first directory there,
    and the rarest of these together.
    """
    different = list(dict.fromkeys(paths))
    split = {path: path.split("/") for path in different}
    parents = [parts[:-1] for parts in split.values()]
    common = 0
    while parents and all(len(parts) > common and parts[common] == parents[0][common] for parts in parents):
        common += 1
    below = {path: parts[common:] for path, parts in split.items()}
    if len(different) <= _MOST:
        return {path: "/".join(parts) for path, parts in below.items()}
    names = {path: parts[0] if len(parts) > 1 else _TOP for path, parts in below.items()}
    kept = {name for name, _ in Counter(names[path] for path in paths).most_common(_MOST)}
    if len(kept) < len(set(names.values())):
        kept = {name for name, _ in Counter(names[path] for path in paths).most_common(_MOST - 1)}
    return {path: name if name in kept else _OTHERS for path, name in names.items()}
