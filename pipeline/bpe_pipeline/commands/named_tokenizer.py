"""Which tokenizer a person named: of a run it is the first one, although there may be newer sizes."""

from bpe_pipeline.run import manifest
from bpe_pipeline.storage import Location, same_location
from bpe_pipeline.tokenizer.formats.files import tokenizer_path
from bpe_pipeline.tokenizer.formats.well_known import found


def used_of(path: Location) -> tuple[Location, tuple[str, ...]]:
    """Return what is loaded for a path or a name; of a run also the names of its other tokenizers."""
    path = found(path)
    used = tokenizer_path(path)
    run = None if same_location(used, path) else manifest.load_undamaged(path)
    return used, tuple(home.name for home in run.tokenizers() if home.name != used.name) if run else ()
