"""`info`: what a run, a tokenizer or a directory of shards is, from its own files; nothing is computed or changed."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import OtherKindError
from bpe_pipeline.base.units import format_bytes, format_count
from bpe_pipeline.corpus.skipped_or_altered import in_words
from bpe_pipeline.counts.chunk_statistics import NotTaken
from bpe_pipeline.counts.counted import weights_of
from bpe_pipeline.counts.counter_file import LookTask, look
from bpe_pipeline.merges.chooser import Chooser
from bpe_pipeline.reports.result import Facts
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import RUN, Directory
from bpe_pipeline.run.extensions import maker_of
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.options import flag_of, without_defaults
from bpe_pipeline.run.plan import Plan, corpus_bytes
from bpe_pipeline.run.stored import plain
from bpe_pipeline.shards import manifest as shards
from bpe_pipeline.shards.encoded_corpus import RESULT, EncodedCorpus, find_result, load_result
from bpe_pipeline.shards.manifest import SHARDS, tokenizer_fingerprint
from bpe_pipeline.storage import Location, names_in
from bpe_pipeline.tokenizer.formats.export_formats import FILE_NAMES
from bpe_pipeline.tokenizer.formats.files import load_model, tokenizer_home
from bpe_pipeline.tokenizer.named_templates import NAMES, named_template

_OF_TEXT = ("text_tokens", "text_bytes", "bytes_per_token")  # without special tokens


def info_of(where: Location) -> Facts:
    """Return what a run, a tokenizer or a directory of shards is."""
    if (where / RUN.manifest).exists():
        return _run(manifest.require(where))
    if (where / RESULT).exists() or (where / SHARDS.manifest).exists():
        return _shards(where)
    if where.is_file() and (encoded := find_result(where)) is not None:
        return _encoded(where, *encoded[:2])
    home = tokenizer_home(where)
    maker = maker_of(home)
    try:
        facts = _tokenizer(where)
    except OtherKindError:
        if maker is None:
            raise
        facts = {}  # an extension's directory without a tokenizer
    return _with_extension(facts, home, maker)


def _facts(facts: Mapping[str, Any]) -> Facts:
    """Make a result of facts: texts of tokens and names of files are shown with their ids and sizes."""
    shown: dict[str, object] = {
        name: [f"{text} ({unit(number)})" for text, number in facts[name].items()]
        for name, unit in (("special_tokens", "id {}".format), ("files", format_bytes))
        if name in facts
    }
    if left_out := facts.get("left_out"):
        shown["left_out"] = str(NotTaken(**left_out))
    if rate := facts.get("bytes_per_token"):
        shown["bytes_per_token"] = f"{rate:.3f}"
    if options := facts.get("options"):
        differing = (f"{flag_of(name)} {_plain(one)}" for name, one in without_defaults(options).items())
        shown["options"] = ", ".join(differing) or "the defaults"
    return Facts(facts, shown_as=shown)


def _with_extension(facts: dict[str, Any], home: Location, maker: Any) -> Facts:
    """Make a result of facts and what the extension that made a directory, if one did, adds for it."""
    if maker is None:
        return _facts(facts)
    of_extension: Facts = maker.info(home)
    shown = _facts({**facts, **of_extension.facts})
    return replace(shown, shown_as={**shown.shown_as, **of_extension.shown_as})


def _run(run: Run) -> Facts:
    stored, plan = run.manifest, run.manifest.plan
    chunks, whole = run.chunks_there(), run.counter_path.exists()
    [counter] = look(LookTask([run.counter])) if whole else [None]
    corpus = {"counts_from": stored.source.description} if stored.source else {}
    if plan.files:
        corpus = {"corpus": f"{format_count(len(plan.files), 'files')}, {format_bytes(corpus_bytes(plan.files))}"}
    tokenizers = [where for where in run.tokenizers() if (where / "tokenizer.json").exists()]
    chooser: Chooser | None = stored.chooser
    is_counted = whole and (bool(stored.counted_in) or len(chunks) == len(plan.chunks))
    facts = {
        "run": str(run.directory),
        **corpus,
        **({"weights": weights} if (weights := weights_of(stored)) else {}),
        **(_left_out(counter.statistics.not_taken) if counter else {}),
        **({"mixture": str(mixture)} if (mixture := stored.mixture) else {}),
        "counted": "completely" if is_counted else _counted(stored.source is None, chunks, stored.plan),
        **(chooser.info() if chooser else {}),
        "options": stored.counting | (stored.merging or {}) | (chooser.REPLACED if chooser and stored.merging else {}),
        "fingerprint": stored.counter_fingerprint,
        "tokenizers": [_facts(_tokenizer(where)) for where in tokenizers],
    }
    return _facts(facts)


def _counted(of_corpus: bool, counted: Collection[int], plan: Plan) -> str:
    """Say how much of a run that is not complete is counted."""
    whole = format_count(len(plan.chunks), "chunks")
    return f"{len(counted)} of {whole}" if of_corpus else "no, its counts are being combined"


def _tokenizer(path: Location) -> dict[str, Any]:
    model, home = load_model(path), tokenizer_home(path)
    vocabulary, jinja = model.vocabulary, None if model.chat_template is None else model.chat_template.jinja
    known = {named_template(name).jinja: name for name in NAMES}
    names = [name for name in names_in(home) if name in {*FILE_NAMES, path.name}]
    return {
        "tokenizer": str(path if path.is_file() else home),
        "size": vocabulary.size,
        "merges": len(vocabulary.left),
        "special_tokens": dict(vocabulary.special_tokens),
        "bos_token": model.bos_token,
        "eos_token": model.eos_token,
        "pad_token": model.pad_token,
        "pattern": model.pattern.name or model.pattern.expression,
        "chat_template": None if jinja is None else known.get(jinja, f"its own, {len(jinja):,} characters"),
        "files": {name: (home / name).stat().st_size for name in names},
        "fingerprint": tokenizer_fingerprint(model),
    }


def _shards(directory: Location) -> Facts:
    encoding = shards.load(Directory(directory, SHARDS))
    corpus = load_result(directory / RESULT)
    if corpus is None:
        assert encoding is not None, "info found one of the two"
        done = len(encoding.chunks_there())
        unfinished = f"{done} of {format_count(len(encoding.plan.chunks), 'chunks')}; the same command resumes"
        return _facts({"shards": str(directory), "encoded": unfinished, "tokenizer": encoding.options["tokenizer"]})
    return _encoded(directory, directory, corpus)


def _encoded(where: Location, home: Location, corpus: EncodedCorpus) -> Facts:
    maker = maker_of(home, corpus.made_by)  # first, since it may add kinds of input that was skipped or altered
    facts = {
        "shards": str(where),
        "encoded": "completely",
        "format": corpus.kind,
        "corpus": f"{format_count(corpus.files, 'files')}, {format_bytes(corpus.read_bytes)}",
        "tokens": corpus.tokens,
        **({} if corpus.text_tokens is None else {name: getattr(corpus, name) for name in _OF_TEXT}),
        "documents": corpus.documents,
        "documents_by": corpus.documents_by,
        "special_tokens": {} if corpus.separator is None else {corpus.separator: corpus.separator_id},
        **_left_out(corpus.not_taken),
        "skipped_or_altered": list(map(str, in_words(corpus.losses))),
        "vocab_size": corpus.vocab_size,
        "files": {shard.name: shard.bytes for shard in corpus.shards},
        "tokenizer": corpus.tokenizer,
        "fingerprint": corpus.encoding,
    }
    return _with_extension(facts, home, maker)


def _left_out(not_taken: NotTaken) -> dict[str, Any]:
    return {"left_out": plain(not_taken)} if str(not_taken) else {}


def _plain(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else f"{value:,}" if type(value) is int else str(value)
