"""`info`: what a run, a tokenizer or a directory of shards is, from its own files; nothing is computed or changed."""

from collections.abc import Mapping
from typing import Any

from pipeline.base.units import format_bytes, format_count
from pipeline.commands.made_by import guest_of
from pipeline.corpus.skipped_or_altered import in_words
from pipeline.reports.summary import two_columns
from pipeline.run import manifest
from pipeline.run.directory import Directory
from pipeline.run.files import RUN
from pipeline.run.manifest import Run
from pipeline.run.option_types import AnyPath
from pipeline.run.parity import Parity
from pipeline.run.plan import corpus_bytes
from pipeline.shards import manifest as shards
from pipeline.shards.manifest import RESULT, SHARDS, EncodedCorpus, find_result, tokenizer_fingerprint
from pipeline.storage import Location, existing, named, names_in
from pipeline.tokenizer.chat_templates import CHAT_TEMPLATES
from pipeline.tokenizer.formats.load import load_model, tokenizer_home
from pipeline.tokenizer.formats.save import FILE_NAMES
from pipeline.tokenizer.model import ChatTemplate

_MOST_SHOWN = 20  # of special tokens or files, in text


class Facts(dict[str, Any]):
    """Facts by name, which are shown as `bpe-pipeline info` prints them."""

    def __repr__(self) -> str:
        return render(self)


def info(path: AnyPath) -> dict[str, Any]:
    """Return what a run, a tokenizer or a directory of shards is, as `bpe-pipeline info` does.

    >>> pipeline.train("corpus.txt", output="runs/a", vocab_size=260).vocab_size
    260
    >>> pipeline.info("runs/a/tokenizer")["special_tokens"]
    {'<|endoftext|>': 259}

    Args:
        path: the directory or the file, a path or a URI.

    Returns:
        The facts by name, those of a run with `tokenizers`, a list of the same. Shown in a notebook, they are a table.

    Raises:
        InputError: there is no tokenizer, run or directory of shards.
        RunDirectoryError: the directory is damaged.
    """
    return Facts(run_info(named(path, "path")))


def run_info(path: Location) -> dict[str, Any]:
    """Return the facts about a directory by name, `tokenizers` as a list of the same; raises as loading it does."""
    if (path / RUN.manifest).exists():
        return _run(manifest.require(path))
    if (path / RESULT).exists() or (path / SHARDS.manifest).exists():
        return _shards(path)
    if path.is_file() and (found := find_result(path)) is not None:
        return _encoded(path, found[1])
    guest = guest_of(tokenizer_home(path))
    return _tokenizer(path) | (guest.info(tokenizer_home(path)) if guest is not None else {})


def _run(run: Run) -> dict[str, Any]:
    stored, plan = run.manifest, run.manifest.plan
    *chunks, whole = existing([*(run.chunk_path(index) for index in range(len(plan.chunks))), run.counter_path])
    corpus = {"counts_from": stored.source.description} if stored.source else {}
    if plan.files:
        corpus = {"corpus": f"{format_count(len(plan.files), 'files')}, {format_bytes(corpus_bytes(plan.files))}"}
    found = [where for where in run.tokenizers() if (where / "tokenizer.json").exists()]
    by_letters = {"tie_break": "greatest-letters"} if stored.parity is not None and stored.merging else {}
    return {
        "run": str(run.directory),
        **corpus,
        **({"weights": plan.described(stored.weights)} if stored.weights else {}),
        "counted": "completely" if whole else f"{sum(chunks)} of {format_count(len(chunks), 'chunks')}",
        **_parity(stored.parity),
        "options": {**stored.counting, **(stored.merging or {}), **by_letters},
        "fingerprint": stored.counter_fingerprint(),
        "tokenizers": [_tokenizer(where) for where in found],
    }


def _parity(parity: Parity | None) -> dict[str, Any]:
    """Say which languages choose the merges, and how."""
    if parity is None:
        return {}
    settings = {name: getattr(parity, name) for name in ("window", "alpha", "global_merges")}
    return {
        "languages": [f"{one.name} ({one.counter})" for one in parity.languages],
        **({"dev": [f"{one.name} ({one.counter})" for one in parity.dev]} if parity.dev else {}),
        "parity": ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in ({"ratios": list(parity.ratios)} | settings).items()
        ),
    }


def _tokenizer(path: Location) -> dict[str, Any]:
    model, home = load_model(path), tokenizer_home(path)
    vocabulary = model.vocabulary
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
        "chat_template": _template(model.chat_template),
        "files": {name: (home / name).stat().st_size for name in names},
        "fingerprint": tokenizer_fingerprint(model),
    }


def _template(template: ChatTemplate | None) -> str | None:
    if template is None:
        return None
    known = (name for name, one in CHAT_TEMPLATES.items() if one.jinja == template.jinja)
    return next(known, f"its own, {len(template.jinja):,} characters")


def _shards(directory: Location) -> dict[str, Any]:
    encoding = shards.load(Directory(directory, SHARDS))
    corpus = shards.load_result(directory / shards.RESULT)
    if corpus is None:
        assert encoding is not None, "run_info found one of the two"
        done = sum(existing([path for path, _ in encoding.parts()]))
        unfinished = f"{done} of {format_count(len(encoding.plan.chunks), 'chunks')}; the same command resumes"
        return {"shards": str(directory), "encoded": unfinished, "tokenizer": encoding.options["tokenizer"]}
    return _encoded(directory, corpus)


def _encoded(where: Location, corpus: EncodedCorpus) -> dict[str, Any]:
    return {
        "shards": str(where),
        "encoded": "completely",
        "format": corpus.kind,
        "corpus": f"{format_count(corpus.files, 'files')}, {format_bytes(corpus.text_bytes)}",
        "tokens": corpus.tokens,
        "documents": corpus.documents,
        "documents_by": corpus.documents_by,
        "special_tokens": {} if corpus.separator is None else {corpus.separator: corpus.separator_id},
        "skipped_or_altered": list(map(str, in_words(corpus.losses))),
        "vocab_size": corpus.vocab_size,
        "files": {shard.name: shard.bytes for shard in corpus.shards},
        "tokenizer": corpus.tokenizer,
        "fingerprint": corpus.encoding,
    }


def render(facts: Mapping[str, Any]) -> str:
    """Return the facts as text: one a line, and a block for each tokenizer of a run."""
    rows = [
        (name.replace("_", " "), text)
        for name, value in facts.items()
        if name != "tokenizers"
        for text in _lines(name, value)
    ]
    return "\n\n".join([two_columns(rows), *map(render, facts.get("tokenizers", ()))])


def _lines(name: str, value: object) -> list[str]:
    if isinstance(value, dict):
        if name == "options":
            return [", ".join(f"{option} {_plain(one)}" for option, one in value.items())]
        unit = format_bytes if name == "files" else "id {}".format
        value = [f"{text} ({unit(number)})" for text, number in value.items()]
    if isinstance(value, list):
        more = [f"... and {len(value) - _MOST_SHOWN:,} more: --log-json has all"] if len(value) > _MOST_SHOWN else []
        return [*value[:_MOST_SHOWN], *more] or ["none"]
    return [_plain(value)]


def _plain(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return f"{value:,}" if type(value) is int else str(value)
