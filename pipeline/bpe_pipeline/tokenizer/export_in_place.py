"""Export into a directory that may hold files already: those of a run's tokenizer, or of someone else."""

import json
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.manifest import require, run_of, store_written, unedited
from bpe_pipeline.run.options import ExportOptions, without_defaults
from bpe_pipeline.run.record import Scope
from bpe_pipeline.storage import Location, existing
from bpe_pipeline.tokenizer.export import export_model
from bpe_pipeline.tokenizer.formats.fields import CARD, read_bytes, read_text, write_files
from bpe_pipeline.tokenizer.formats.files import load_model
from bpe_pipeline.tokenizer.formats.huggingface import MODEL_NAME
from bpe_pipeline.tokenizer.formats.settings_files import template_files, templates_of
from bpe_pipeline.tokenizer.model import Model


def export_in_place(
    model: Model, directory: Location, options: ExportOptions, *, changed: bool
) -> tuple[list[Location], dict[str, str]]:
    """Export; into the directory of a tokenizer of a run, store there what was written, and with which roles.

    changed: whether a model card in the directory is of other ids or roles: it is removed, unless a person edited it.
    Raises `UsageError` if the directory is that of another tokenizer of a run, or holds files with other content that
    no run wrote, without `overwrite`.
    """
    run = run_of(directory)
    if directory == Path():
        directory = directory.absolute()  # it has a name and a parent
    if run is None or directory.name not in run.manifest.special or directory.parent != run.directory.location:
        return _export_over(model, directory, options)
    with run.directory.locked():
        run = require(run.directory.location)
        there = load_model(directory).vocabulary if (directory / "tokenizer.json").exists() else None
        if there is not None and there.tokens != model.vocabulary.tokens:
            raise UsageError(f"{directory} holds another tokenizer of the run {run.directory}; choose another --output")
        ours = unedited(run, [name for name in run.manifest.written if name.startswith(f"{directory.name}/")])
        written, refused = _export_over(model, directory, options, [name.partition("/")[2] for name in ours])
        before, asked = run.manifest.special, without_defaults(options.in_scope(Scope.SPECIAL))
        special = before | {directory.name: before.get(directory.name, {}) | asked}
        if changed:
            run.directory.remove(unedited(run, [f"{directory.name}/{CARD}"]))
        store_written(run.changed(special=special), written)
    return written, refused


def _export_over(
    model: Model, directory: Location, options: ExportOptions, ours: Collection[str] = ()
) -> tuple[list[Location], dict[str, str]]:
    """Export; raises `UsageError` for files with other content, but those that are `ours`, without `overwrite`."""
    with tempfile.TemporaryDirectory() as scratch:
        exported, refused = export_model(
            model, Path(scratch), options.export, without_normalizer=options.without_normalizer
        )
        contents = {str(file)[len(scratch) + 1 :]: read_bytes(file) for file in exported}
    there = existing([directory / name for name in contents])
    replaced = [
        name
        for name, exists in zip(contents, there, strict=True)
        if exists and name not in ours and not _say_the_same(read_bytes(directory / name), contents[name])
    ]
    if replaced and not options.overwrite:
        raise UsageError(
            f"{directory} has other content in {', '.join(replaced)}; choose another --output, or replace it with "
            "--overwrite"
        )
    wanted = templates_of(model)
    for name, file in template_files(directory).items() if MODEL_NAME in contents else ():
        if read_text(directory / file) != wanted.get(name):
            raise UsageError(
                f"{directory / file} would be read in place of the exported chat template; remove it, or choose "
                "another --output"
            )
    return write_files(directory, contents), refused


def _say_the_same(first: bytes, second: bytes) -> bool:
    """Whether two files have the same bytes, or are JSON with the same content."""
    with suppress(ValueError):
        return first == second or bool(json.loads(first) == json.loads(second))
    return False
