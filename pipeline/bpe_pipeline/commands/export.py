"""`export`: write a tokenizer's files for other runtimes, and check them in the libraries they are for."""

from collections.abc import Sequence
from dataclasses import dataclass

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.base.printable import printable, wrapped
from bpe_pipeline.counts.as_text import bounds_at
from bpe_pipeline.pattern.translate import not_in_tokenizers_1
from bpe_pipeline.reports.result import Result
from bpe_pipeline.run import manifest
from bpe_pipeline.run.options import ExportOptions
from bpe_pipeline.storage import Location
from bpe_pipeline.tokenizer.added import news_of, reserved_in, with_roles
from bpe_pipeline.tokenizer.check import check_exports, local_files, texts_to_check
from bpe_pipeline.tokenizer.export import Check, limits_of, with_chat_template
from bpe_pipeline.tokenizer.export_in_place import export_in_place
from bpe_pipeline.tokenizer.formats.export_formats import default_formats
from bpe_pipeline.tokenizer.formats.fields import CARD
from bpe_pipeline.tokenizer.formats.files import load_model, tokenizer_home
from bpe_pipeline.tokenizer.formats.rank_lists import load_ranks_by
from bpe_pipeline.tokenizer.formats.settings_files import generation_note
from bpe_pipeline.tokenizer.model import Model
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_OF_IDS = ("vocabulary", "bos_token", "eos_token", "pad_token", "front")


@dataclass(frozen=True)
class WrittenFiles(Result):
    """The files that were written and how they were checked. notes: what to know; failure: why not to use them."""

    written: tuple[Location, ...]
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    failure: str = ""

    @property
    def brief(self) -> str:
        """All of it."""
        return str(self)

    def text(self, columns: int) -> str:
        """Return the paths, and what was checked."""
        return "\n".join(wrapped(printable(line), columns) for line in (*self.written, *self.checks))


def run_export(path: Location, options: ExportOptions, samples: Sequence[Location] | None) -> WrittenFiles:
    """Export a tokenizer. samples: to check with, empty: of its run, None: no check."""
    ranks, added = options.rank_pattern, options.added_special_tokens
    before, home = load_model(path) if ranks is None else load_ranks_by(path, ranks, added), tokenizer_home(path)
    directory = options.output or home
    reserved = reserved_in(before, path) if added else ()
    model = with_chat_template(with_roles(before, options, reserved), options)
    if options.output is None and model.vocabulary != before.vocabulary:
        lacking = model.vocabulary.special_tokens.keys() - before.vocabulary.special_tokens
        raise UsageError(
            f"{directory} lacks {', '.join(sorted(lacking))}; give --output for a tokenizer that has more, or "
            "name them when you merge"
        )
    notes = [f"note: {line}" for line in (*news_of(before, model), *bounds_at(path, added))]
    same, had_card = all(getattr(model, name) == getattr(before, name) for name in _OF_IDS), _has_card(home)
    written, refused = export_in_place(model, directory, options, changed=not same)
    if had_card and not _has_card(home):
        again = f"bpe-pipeline report {home}"
        notes.append(f"note: the model card was of other special tokens and is removed; {again} makes it again")
    if note := generation_note(before, model):
        notes.append(f"note: {note}")
    notes += [f"no {name} files: {reason}" for name, reason in refused.items()]
    if any(file.name == "tokenizer.json" for file in written) and (limit := not_in_tokenizers_1(model.pattern)):
        notes.append(f"note: {limit}")
    notes += [f"note: {limit}" for limit in limits_of(model, options.export or ())]
    formats = [name for name in options.export or default_formats() if name not in refused]
    if options.without_normalizer:
        notes.append(f"note: {_effect_of_nfc(path, model, formats, samples or ())}")
    checks = [] if samples is None else _checked(path, directory, model, formats, samples, options.without_normalizer)
    failed = [check for check in checks if check.outcome == "different"]
    failure = ""
    if failed:
        difference = f"{len(failed)} of {len(checks)} checks found a difference, the first: {failed[0]}"
        failure = f"{directory} is not to be used: {difference}; please report it"
    return WrittenFiles(tuple(written), tuple(notes), tuple(checks), failure)


def _has_card(home: Location) -> bool:
    """Whether a tokenizer directory has a model card; a README.md without metadata is none."""
    card = home / CARD
    return card.exists() and card.read_bytes().startswith(b"---")


def _effect_of_nfc(path: Location, model: Model, formats: Sequence[str], samples: Sequence[Location]) -> str:
    """Say how many of the sample texts get other ids without NFC; `UsageError` where it means nothing."""
    if not model.preparation.nfc or "gguf" not in formats:
        why = "GGUF is not among the formats" if model.preparation.nfc else "this tokenizer has no normalizer"
        raise UsageError(f"--without-normalizer means nothing here, since {why}: leave it out")
    if not (texts := texts_to_check(manifest.run_of(path), samples)):
        return "how many texts get other ids in llama.cpp is unknown; name some with --check --sample FILE"
    rows, bare_rows = (Tokenizer.from_model(each).encode_batch(texts) for each in (model, model.without_nfc))
    different = sum(ids != bare_ids for ids, bare_ids in zip(rows, bare_rows, strict=True))
    return (
        f"{different:,} of {len(texts):,} sample texts ({different / len(texts):.1%}) get other ids in llama.cpp, "
        "which does not put text into NFC"
    )


def _checked(
    path: Location, directory: Location, model: Model, formats: Sequence[str], samples: Sequence[Location], bare: bool
) -> list[Check]:
    """Check the files in a directory, GGUF `bare` of NFC."""
    without_nfc = [name for name in formats if bare and name == "gguf"]
    others = [name for name in formats if name not in without_nfc]
    texts = texts_to_check(manifest.run_of(path), samples)
    with local_files(directory) as local:
        checks = check_exports(Tokenizer.from_model(model), local, others, texts)
        return checks + check_exports(Tokenizer.from_model(model.without_nfc), local, without_nfc, texts)
