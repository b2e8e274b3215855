"""`doctor`: what is wrong with a tokenizer directory, ours or another's: findings, each with a remedy.

Nothing in the directory is executed or changed: a tiktoken_encoding.py is run only if it is, byte for byte, the one
that this package would write.
"""

import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

from bpe_pipeline.base.errors import ExportRefusedError, InputError, OtherKindError, RunDirectoryError
from bpe_pipeline.base.events import Listener, warn_of
from bpe_pipeline.base.units import format_count
from bpe_pipeline.counts.counter_file import open_counter
from bpe_pipeline.extensions.inspect.doctor_files import agreement, settings
from bpe_pipeline.extensions.inspect.findings import (
    ADVICE,
    FINE,
    NOT_CHECKED,
    WRONG,
    Examined,
    command,
    finding,
    first_of,
)
from bpe_pipeline.pattern.normalization import nfc
from bpe_pipeline.reports.result import Advice
from bpe_pipeline.reports.tokens import unused_tokens
from bpe_pipeline.run import manifest
from bpe_pipeline.run.ids import CHAT_MARKS, WELL_KNOWN, is_reserved
from bpe_pipeline.run.manifest import Run
from bpe_pipeline.run.patterns import cut_by
from bpe_pipeline.storage import Location, names_in, same_location
from bpe_pipeline.tokenizer.check import (
    CONFIGURED,
    HARD_TEXTS,
    check_exports,
    local_files,
    replaced_by_transformers,
    texts_to_check,
)
from bpe_pipeline.tokenizer.formats.export_formats import FORMATS
from bpe_pipeline.tokenizer.formats.fields import SNIPPET_NAME
from bpe_pipeline.tokenizer.formats.files import load_model, tokenizer_home
from bpe_pipeline.tokenizer.formats.huggingface import EDITABLE
from bpe_pipeline.tokenizer.formats.well_known import found
from bpe_pipeline.tokenizer.model import Model, bytes_of_letters
from bpe_pipeline.tokenizer.tokenizer import Tokenizer

_NEEDED = {name: {*one.files} - {*EDITABLE} for name, one in FORMATS.items()}  # the files of each format
_NEEDED[CONFIGURED] = {"vocab.json", "merges.txt", "tokenizer_config.json"}


def examine(path: Location, texts: Sequence[str], run: Run | None, listener: Listener = warn_of) -> list[Advice]:
    """Examine a tokenizer. texts: to compare runtimes on, besides hard ones; run: whose counts say what is used."""
    home = tokenizer_home(path)
    try:
        model = load_model(path)
    except OtherKindError as reason:
        remedy = "only byte-level BPE is examined: what another library loads may be fine"
        return [Advice("files", remedy, str(reason), outcome=NOT_CHECKED)]
    except InputError as reason:
        named = "name a run, a tokenizer's directory or its tokenizer.json; if it is one, "
        remedy = f"{named if path.is_file() else ''}write it again, or get it again"
        return [Advice("files", remedy, str(reason), outcome=WRONG)]
    checks = {
        "files": agreement(model, home),
        "settings": settings(model, home),
        "special tokens": _special_tokens(model, home),
        "tokens": chain(_tokens(model), _unused(model, run)),
        "round trip": _round_trip(model),
        "runtimes": _runtimes(model, home, texts, listener),
    }
    return [replace(one, about=subject) for subject, findings in checks.items() for one in findings]


def _special_tokens(model: Model, home: Location) -> Iterator[Advice]:
    """Check roles, the chat template, and special tokens that collide."""
    specials, export = model.vocabulary.special_tokens, command("export", home)
    written = {text.encode(): text for text in specials}
    for id_, token in model.vocabulary.tokens.items():
        if (text := written.get(token)) is not None and specials[text] != id_:
            two = f"the special token {specials[text]} and the ordinary token {id_}"
            remedy = "rename the special token, or remove the ordinary one"
            yield finding(WRONG, f"{text!r} is {two}", remedy, token=text, ids=[specials[text], id_])
    for shorter, longer in pairwise(sorted(specials)):
        if longer.startswith(shorter):
            message = f"{shorter!r} begins {longer!r}: runtimes differ in which one they find, tiktoken for one"
            yield finding(ADVICE, message, "rename one of them", tokens=[shorter, longer])
    words = [text for text in specials if text.replace(" ", "").isalnum()]
    if words:
        message = f"{first_of(words)} can occur in any text, which then has the id of a special token"
        yield finding(ADVICE, message, "write them with marks, such as <|name|>", tokens=words)
    if model.eos_token is None:
        message = "there is no eos token: generation does not stop, and documents cannot be separated"
        eos = _existing(specials, "end", "<|endoftext|>")
        yield finding(ADVICE, message, f"{export} --eos-token {eos} --output NEW")
    if model.pad_token in (None, model.eos_token):
        message = f"{model.pad_token!r} is pad and eos token: trainers that mask padding never learn to stop"
        if model.pad_token is None:
            message = "there is no pad token: batches of texts of different lengths cannot be made"
        pad = _existing(specials, "pad", "<|pad|>")
        yield finding(ADVICE, message, f"{export} --pad-token {pad} --output NEW")
    marks = [text for text in specials if text in CHAT_MARKS]
    if model.chat_template is None and marks:
        message = f"there is no chat template, but chat marks: {first_of(marks)}"
        yield finding(ADVICE, message, f"{export} --chat-template NAME --output NEW", tokens=marks)
    if model.chat_template and (missing := model.chat_template.missing(specials)):
        message = f"the chat template writes {first_of(missing)}, which are ordinary text here"
        remedy = "add them as special tokens, or give another --chat-template"
        yield finding(WRONG, message, remedy, tokens=[*missing])


def _existing(specials: Mapping[str, int], kind: str, new: str) -> str:
    """Return the special token to propose for a role, quoted: one of its kind, else a reserved one, else a new one."""
    own = [text for text in specials if text in WELL_KNOWN[kind]]
    own += [text for text in specials if re.search(rf"(?<![a-z]){kind}(?![a-z])", text.replace("_", " "))]
    reserved = [text for text in specials if is_reserved(text)] if kind == "pad" else []
    return shlex.quote([*own, *reserved, new][0])


def _tokens(model: Model) -> Iterator[Advice]:
    """Check that every token can be reached, and that ids leave no gaps."""
    vocabulary, pattern = model.vocabulary, model.pattern
    lost, tokens = model.unreachable_tokens(), len(vocabulary.tokens)
    if model.whole_pre_tokens:  # a whole pre-token is looked up
        lost = [id_ for id_ in lost if len(pattern.cut(vocabulary.tokens[id_].decode(errors="replace"))) > 1]
    if lost:
        shown = first_of([repr(vocabulary.tokens[id_]) for id_ in lost])
        remedy = "bpe-pipeline prune removes tokens that are not used, or restore the missing merges"
        never = f"the merges never make {format_count(len(lost), 'tokens')}{_share(len(lost), tokens)}: {shown}"
        yield finding(ADVICE, never, remedy, tokens=len(lost), of=tokens)
    else:
        yield finding(FINE, f"each of the {tokens:,} ordinary tokens can be reached", tokens=tokens)
    if model.lossy:
        remedy = "nothing if no text has them, else train with initial_alphabet=ByteLevel.alphabet()"
        yield finding(ADVICE, model.lossy, remedy, bytes=list(vocabulary.lost_bytes))
    gaps = vocabulary.max_id + 1 - vocabulary.size
    if gaps:
        message = f"{gaps:,} ids below {vocabulary.max_id:,} are no tokens: rows of the embedding that nothing uses"
        remedy = "nothing, or number the tokens without gaps before training a model"
        yield finding(ADVICE, message, remedy, ids=gaps, of=vocabulary.max_id + 1)


def _share(part: int, of: int) -> str:
    return f" ({part / of:.2%} of all)" if part else ""


def _unused(model: Model, run: Run | None) -> Iterator[Advice]:
    """Count the tokens that a run's pre-tokens, encoded, never have, and that no token of theirs is made of."""
    if run is None:
        remedy = "bpe-pipeline count TEXTS --like TOKENIZER, then --counts RUN"
        yield finding(NOT_CHECKED, "there are no counts that say which tokens are used", remedy)
        return
    vocabulary, note = model.vocabulary, ""
    if run.manifest.cutting != cut_by(model.counting_pattern):
        note = "; they were not split as the tokenizer splits: bpe-pipeline count TEXTS --like TOKENIZER"
    with open_counter(run.counter_path, fingerprint=run.manifest.counter_fingerprint) as counter:
        uses = model.uses(counter.read_all())
    unused, parts = unused_tokens(vocabulary, lambda id_: uses[id_] > 0)
    evidence = {"tokens": len(unused), "parts": len(parts), "of": len(vocabulary.tokens)}
    message = f"{format_count(len(unused), 'tokens')} of several bytes and their longer forms never occur in the counts"
    message += f" of {run.directory}{_share(len(unused), len(vocabulary.tokens))}; {len(parts):,} occur only as parts"
    message += f" of longer ones{note}"
    if not unused:
        yield finding(FINE, message, **evidence, run=str(run.directory))
        return
    remedy = f"train a smaller vocabulary, or {command('prune', 'BASE', run.directory)} --min-count 1"
    tokens = first_of([repr(vocabulary.tokens[id_]) for id_ in unused])
    yield finding(ADVICE, f"{message}: {tokens}", remedy, **evidence, run=str(run.directory))


def _round_trip(model: Model) -> Iterator[Advice]:
    """Encode and decode edge cases and each special token."""
    tokenizer = Tokenizer.from_model(model)
    texts = [*HARD_TEXTS, *model.vocabulary.special_tokens]

    def decoded(text: str) -> str | None:
        with suppress(InputError):  # bytes without a token may be refused
            return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
        return None

    changed = [text for text in texts if decoded(text) != text]
    if not changed:
        message = f"{len(texts):,} edge cases and special tokens are decoded as they were"
        yield finding(FINE, message, texts=len(texts))
        return
    shown = f"{len(changed):,} of {len(texts):,} texts are not decoded as they were, the first {changed[0][:40]!r}"
    preparation, evidence = model.preparation, {"changed": len(changed), "texts": len(texts)}
    special = model.vocabulary.special_tokens
    written_as_bytes = {text for text in special if (decoded(text) or "").encode() in bytes_of_letters(text)}
    if preparation.nfc and all(decoded(nfc(text)) == nfc(text) for text in changed):
        why = "text is put into NFC first"
    elif model.is_prepared or model.vocabulary.lost_bytes:
        why = "the file says so (a space in front, special tokens that take white space, or bytes without a token)"
    elif {*changed} <= written_as_bytes:
        why = "its characters are those in which vocabularies write bytes, and tokenizers decodes them as these bytes"
    else:
        yield finding(WRONG, shown, "please report it", **evidence)
        return
    yield finding(ADVICE, f"{shown}: {why}", "nothing, if that is wanted", **evidence)


def _runtimes(model: Model, home: Location, texts: Sequence[str], listener: Listener) -> Iterator[Advice]:
    """Compare the ids of every installed library that reads a file of the directory."""
    formats = []
    for name, needed in _NEEDED.items():
        names = set(names_in(home))
        if not needed <= names or (name == CONFIGURED and "tokenizer.json" in names):
            continue
        if reason := _not_to_be_checked(model, home, name):
            yield finding(NOT_CHECKED, f"{name}: {reason}")
        else:
            formats.append(name)
    with local_files(home) as local:
        checks = check_exports(Tokenizer.from_model(model), local, formats, texts, listener)
        same = any(check.format == "hf" and check.outcome == "same" for check in checks)
        causes = {check: replaced_by_transformers(local) for check in checks if same and check.outcome == "different"}
    outcomes = {"same": FINE, "different": WRONG}
    for check in checks:
        outcome = outcomes.get(check.outcome, NOT_CHECKED)
        remedy = f"pip install {check.library}" if check.detail.endswith("is not installed") else ""
        if outcome == WRONG:
            again = f"{command('export', home)} --overwrite writes its files again"
            remedy = f"{again}; a config.json next to them can change ids, too"
            if check.format == "hf" and check.library.startswith("transformers") and (cause := causes.get(check)):
                outcome = ADVICE
                remedy = "set tokenizer_class to PreTrainedTokenizerFast, if the model was not trained with these ids"
                check = replace(check, detail=f"{cause}: {check.detail}")
        message = f"{check.format} with {check.library}: {check.detail}"
        yield finding(outcome, message, remedy, format=check.format, library=check.library)


def _not_to_be_checked(model: Model, home: Location, name: str) -> str:
    """Say why a format's readers are not compared: they cannot have these ids, or it is a program of someone else."""
    if name not in ("gpt2", "tiktoken"):
        return ""
    with tempfile.TemporaryDirectory() as written:
        try:
            FORMATS[name].write(model, Path(written))
        except ExportRefusedError as reason:
            return f"its readers may have other ids: {reason}"
        if name == "tiktoken" and (home / SNIPPET_NAME).read_bytes() != (Path(written) / SNIPPET_NAME).read_bytes():
            return f"{SNIPPET_NAME} is a program that this package did not write, and is not run"
    return ""


def doctor(where: Location, samples: Sequence[Location], counts: Location | None, listener: Listener) -> Examined:
    """Examine a tokenizer. samples: text for its runtimes; counts: a run whose counts say which tokens are used."""
    where = found(where)
    own = manifest.run_of(where)
    if own is not None and same_location(where, own.directory.location) and not own.manifest.tokenizers:
        raise RunDirectoryError(f"{where} has no tokenizer yet: bpe-pipeline merge {where}")
    run = own if counts is None else manifest.require(counts)
    counted = run is not None and run.counter_path.exists()
    texts = texts_to_check(own, samples)
    return Examined(where, tuple(examine(where, texts, run if counted else None, listener)))
