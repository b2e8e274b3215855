"""Open the run that the options ask for: the one in the directory, or a new one with its plan made and saved."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe_pipeline.base.errors import RunDirectoryError, UsageError
from bpe_pipeline.corpus.chunks import cutting_of
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.corpus.files import CorpusFile
from bpe_pipeline.corpus.inputs import sample_corpus
from bpe_pipeline.corpus.listing import Listing
from bpe_pipeline.pattern.token_rules import Preparation, TokenRule
from bpe_pipeline.run import manifest
from bpe_pipeline.run.directory import COUNTS, Directory
from bpe_pipeline.run.ids import ending_bytes, special_tokens_of
from bpe_pipeline.run.make_options import MERGING, refuse_other_options
from bpe_pipeline.run.manifest import Manifest, Run
from bpe_pipeline.run.memory import WRITE_BYTES
from bpe_pipeline.run.mixture import mixture_of
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.parts import processes
from bpe_pipeline.run.patterns import cut_by, on_regex, pattern_of
from bpe_pipeline.run.plan import (
    Plan,
    corpus_bytes,
    default_chunk_bytes,
    is_weighted,
    list_corpus,
    owners_of,
    with_share,
)
from bpe_pipeline.run.record import Scope
from bpe_pipeline.run.runner import Runner
from bpe_pipeline.run.texts import Text
from bpe_pipeline.run.values import parse_added_tokens
from bpe_pipeline.storage import named, same_location
from bpe_pipeline.storage.atomic import make_directory


def open_run(runner: Runner, directory: Directory, options: CountOptions) -> Run:
    """Return the run that is asked for; a new plan is saved, unless `options.dry_run`.

    The results of a smaller corpus, or of another one, stay until all of this one is counted (`counts.count.count`).
    Raises `RunDirectoryError` if the directory holds another run, `InputError` for a corpus that cannot be read.
    """
    if options.overwrite and not options.inputs:
        _refuse_another_corpus(directory)
    stored, requested = None if options.overwrite else manifest.load(directory.location), options
    if stored is not None:
        source = stored.manifest.source
        if elsewhere := source.description if source is not None else stored.manifest.counted_in:
            raise RunDirectoryError(
                f"{directory} holds counts from {elsewhere}, not from a corpus, so nothing can be counted "
                "into it; continue with `bpe-pipeline merge`, choose another --output, or start again with --overwrite"
            )
        if not options.inputs:
            runner.inform(f"resuming with the corpus of {directory}")
            plan = stored.manifest.plan
            empty = (path for path in plan.empty if named(path).exists())
            options = options.replace(inputs=(*(file.path for file in plan.files), *empty))
    listing = list_corpus(options, runner.listener, weighted=is_weighted(requested), may_be_empty=stored is not None)
    directory.refuse_corpus_inside(file.path for file in listing.files)
    counting = with_share(requested.in_scope(Scope.COUNT), listing.files)
    rules = rules_of(counting)
    texts = [token.decode() for token in special_bytes(counting)]
    Preparation(requested.normalize == "nfc", rules=rules).require_one_search([*texts, *rules])
    if stored is not None:
        refuse_other_options(directory, "counting", stored.manifest.counting, counting)
    if any(same_location(named(path), directory.location) for path in requested.inputs or ()):
        raise RunDirectoryError(f"{directory} is the corpus itself: choose another --output")
    new = Run(directory, Manifest(counting, cut_by(pattern_of(requested))))
    return _planned(runner, new, stored, listing, requested)


def _planned(runner: Runner, new: Run, stored: Run | None, listing: Listing, options: CountOptions) -> Run:
    """Return the run of these files: the stored one, or the new one with a plan. options: with inputs as named."""
    directory, before = new.directory, (stored or new).manifest
    if stored is None:
        directory.refuse_linked_directories()
        if not options.overwrite:
            directory.refuse_foreign_files()
    _refuse_other_cutting(directory, before.cutting, new.manifest.cutting)
    added = before.plan.added_files(directory, listing, runner.listener)
    if runner.part and stored is not None:
        return _as_planned(stored, listing, added, options)
    planned = replace(before, plan=replace(before.plan.reopened(listing), empty=listing.empty))
    if added:
        planned = replace(planned, plan=_extended(runner, planned, added, listing, options))
    planned = _weighed(planned, listing, options, is_new=stored is None, grown=bool(added))
    run = Run(directory, planned)
    if stored is not None:
        return _saved(run, stored, options, grown=bool(added))
    if runner.part:  # the first process that has a plan decides for all
        return run if manifest.save(run, absent=True) else open_run(runner, directory, options)
    return run if options.dry_run else replace_run(run)


def _refuse_other_cutting(directory: Directory, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    if before != now:
        raise RunDirectoryError(
            f"{directory} was split by {' '.join(before.values())}, here it would be by {' '.join(now.values())}; use "
            "the installation that started it, or start again with --overwrite"
        )


def _weighed(planned: Manifest, listing: Listing, options: CountOptions, *, is_new: bool, grown: bool) -> Manifest:
    """Return a manifest with the inputs that are named, and the weights that are asked for, or those that it has."""
    inputs, plan, texts = options.inputs, planned.plan, planned.texts
    if inputs or is_new:
        plan = plan.of_inputs(len(inputs or ()), listing)
        texts = tuple(map(Text, inputs or ())) if plan.owners else ()
    if [text.name for text in texts] == [text.name for text in planned.texts] and plan.owners == planned.plan.owners:
        texts = planned.texts  # with their bytes
    if grown:
        texts = tuple(replace(text, bytes=None) for text in texts)
    planned = replace(planned, plan=plan, texts=texts)
    if inputs or is_new or is_weighted(options):
        return planned.weighed(options.weights, mixture_of(options), inputs or (() if is_new else None))
    return planned if planned.mixture is None else planned.weighed(None, planned.mixture)


def _saved(run: Run, stored: Run, options: CountOptions, *, grown: bool) -> Run:
    """Save a run that was stored before, without what was learned from other counts; raise for other weights."""
    other = run.manifest.counter_fingerprint != stored.manifest.counter_fingerprint
    if grown or other or run.manifest.mixture != stored.manifest.mixture:
        if not grown:
            refuse_other_weights(stored, run.manifest, options)
        run = run.changed(merging=None, vocab_size=None)  # files stay listed
    if run != stored and not options.dry_run:
        if other:
            run.directory.remove(f"{COUNTS}/{name}" for name in stored.shares())
        manifest.save(run)
    return run


def _as_planned(stored: Run, listing: Listing, added: tuple[CorpusFile, ...], options: CountOptions) -> Run:
    """Return the run, which parts do not change; `RunDirectoryError` for more files or other weights."""
    if added:
        raise RunDirectoryError(
            f"{stored.directory} was planned without {added[0].path}, and parts keep the plan: count the new files "
            "into another --output and `combine` both, or count once without --part"
        )
    plan = stored.manifest.plan.reopened(listing)
    if is_weighted(options):
        new = replace(stored.manifest, plan=plan).weighed(options.weights, mixture_of(options))
        refuse_other_options(stored.directory, "counting", stored.manifest.mixing, new.mixing)
    return stored.changed(plan=plan)


def replace_run(run: Run, *, results: bool = False) -> Run:
    """Delete the counts of the run in the directory, and its `results`, and save this run in its place."""
    if (old := manifest.load_undamaged(run.directory.location)) is not None:  # else new files replace them one by one
        old = manifest.remove_results(old) if results else old
        manifest.clear_counts(old)
        run = run.changed(tokenizers=old.manifest.tokenizers, written=old.manifest.written)
    make_directory(run.directory / COUNTS)
    manifest.save(run)
    return run


def refuse_other_weights(run: Run, new: Manifest, options: CountOptions) -> None:
    """Raise `RunDirectoryError` if merges were learned from counts with other weights. options: what asks for them."""
    if run.manifest.merging is None or not run.merges_path.exists():
        return
    before, requested = run.manifest.mixing, new.mixing
    if before != requested and options.temperature is not None:
        requested["temperature"] = options.temperature  # also 1, which is stored as none
    refuse_other_options(run.directory, MERGING, before, requested)


def _refuse_another_corpus(directory: Directory) -> None:
    """Raise `UsageError` if the sample corpus would replace a corpus that was named."""
    if (stored := manifest.load_undamaged(directory.location)) is None:
        return
    files = {file.path for file in stored.manifest.plan.files}
    if stored.manifest.source is not None or not files <= set(sample_corpus()):
        raise UsageError(
            f"--overwrite without INPUT would replace the corpus of {directory} by the sample corpus; name the "
            "corpus again"
        )


def _extended(
    runner: Runner, before: Manifest, added: tuple[CorpusFile, ...], listing: Listing, options: CountOptions
) -> Plan:
    """Return the plan of a manifest with chunks for the files of a listing that it does not have."""
    pattern, workers, counting = pattern_of(options), runner.reserve(None), before.counting
    cutting = cutting_of(
        special_bytes(counting),
        rules_of(counting),
        pattern,
        judge=DocumentJudge.of(counting),
        ending=len(ending_bytes(counting)),
        text_field=options.text_field,
        between_frames=True,
    )
    work_bytes = workers.bytes - WRITE_BYTES
    at_once = workers.count * processes(options)
    default = default_chunk_bytes(corpus_bytes(added), at_once, work_bytes, slow=on_regex(pattern))
    owners = dict(zip(listing.files, owners_of(options, listing), strict=False))
    apart = tuple(owners[file] for file in added) if owners else ()
    return before.plan.extended(added, cutting, options.chunk_size or default, apart)


def special_bytes(counting: Mapping[str, Any]) -> tuple[bytes, ...]:
    """List the texts that separate documents, by the counting options of a manifest: first those of `ending_bytes`."""
    special_tokens = (text.encode() for text in special_tokens_of(counting))
    return tuple(dict.fromkeys([*ending_bytes(counting), *special_tokens]))


def rules_of(counting: Mapping[str, Any]) -> dict[str, TokenRule]:
    """Return the rules of the added tokens that do not have the plain one, by the counting options of a manifest.

    Those that are special have none where they are text.
    """
    rules = parse_added_tokens(counting.get("added_tokens") or {})
    return {text: rule for text, rule in rules.items() if not (rule.special and counting["special_tokens_as_text"])}
