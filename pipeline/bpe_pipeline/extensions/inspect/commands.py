"""Commands that look at tokenizers: explain, diff, doctor."""

from collections.abc import Iterable
from dataclasses import MISSING, replace
from typing import Any

from bpe_pipeline.commands.declaration import INSPECT, Session, checking, command
from bpe_pipeline.commands.public.values import as_given, parse_tokenizer
from bpe_pipeline.run.keywords import AnyPath
from bpe_pipeline.run.options import CorpusOptions, Values
from bpe_pipeline.run.record import OWN, Scope, argument, but, flag
from bpe_pipeline.storage import Location

_ANY_TOKENIZER = "a tokenizer, or the path or URI of one"


# fmt: off
class ExplainOptions(Values):
    """What `explain` takes."""

    text: str = argument("TEXT", "str or bytes", read=as_given, keyword=str | bytes)
    tokenizer: Location = flag(MISSING, "a tokenizer directory, tokenizer.json, or a run", "DIR",
        read=parse_tokenizer, keyword=AnyPath | Any)


class DiffOptions(Values):
    """What `diff` takes."""

    first: Location = argument("A", _ANY_TOKENIZER, read=parse_tokenizer, keyword=AnyPath | Any)
    second: Location = argument("B", "the other one", read=parse_tokenizer, keyword=AnyPath | Any)
    inputs: tuple[str, ...] | None = but(CorpusOptions.inputs, scope=Scope.CALL,
        help="files, directories, globs and URIs to sample")
    exclude: tuple[str, ...] | None = but(CorpusOptions.exclude, group=OWN, scope=Scope.CALL)
    texts: tuple[str, ...] = flag((), "compare on this text; repeatable", "STRING", read=as_given, flag="--text",
        keyword=Iterable[str | bytes])


class DoctorOptions(Values):
    """What `doctor` takes."""

    path: Location = argument("TOKENIZER",
        "a tokenizer's directory or file, of this package or another's, or a run")
    inputs: tuple[Location, ...] | None = flag(None,
        "text to compare runtimes on, besides edge cases; default: a sample of the corpus", "FILE...",
        flag="--sample", words=True)
    counts: Location | None = flag(None, "the run whose counts say which tokens are used; default: the tokenizer's own",
        "RUN")
    strict: bool = flag(False, "advice makes the exit code 1, too, and what is not checked 3", command_only=True)
# fmt: on


def _explanation() -> Any:
    from bpe_pipeline.extensions.inspect.explain import Explanation

    return Explanation


def _compared() -> Any:
    from bpe_pipeline.extensions.inspect.diff import Compared

    return Compared


def _examined() -> Any:
    from bpe_pipeline.extensions.inspect.findings import Examined

    return Examined


@command(group=INSPECT, takes=ExplainOptions, positional=("text", "tokenizer"), returns=_explanation)
def explain(session: Session) -> Any:
    """Print why TEXT has its ids.

    That is: its pre-tokens, the merges of each in order, and why two neighbours did not merge; in a run, also how often
    each merge occurred.

    \b
    bpe-pipeline explain --tokenizer runs/a 'Hello world'
    bpe-pipeline explain --tokenizer gpt2/tokenizer.json 'Hello world' --json

    >>> [pre_token] = bpe_pipeline.explain("lower", tokenizer).pre_tokens
    >>> [(merge.rank, merge.left, merge.right) for merge in pre_token.merges]
    [(0, b'l', b'o'), (1, b'lo', b'w'), (2, b'e', b'r')]
    >>> [(apart.left, apart.right) for apart in pre_token.apart]
    [(b'low', b'er')]

    Returns:
        A value with `ids`, `pre_tokens` and `to_json()`.

    Raises:
        UsageError: the text or the tokenizer has another type.
        InputError: the tokenizer at the path cannot be read.
    """
    from bpe_pipeline.extensions.inspect.explain import explain

    return explain(session.options.text, session.options.tokenizer)


@command(group=INSPECT, takes=DiffOptions, positional=("first", "second", "inputs"), returns=_compared)
def diff(session: Session) -> Any:
    """Print how the tokenizers A and B differ.

    Printed are tokens that only one has, ids and ranks that moved, settings, and texts that are split differently, with
    the bytes per token of both. Texts are samples of INPUTs and those of --text; without any, built-in sentences in
    several languages. The exit code is 0 if they are equal, 1 if they differ, 3 if they could not be compared.

    \b
    bpe-pipeline diff runs/a runs/b
    bpe-pipeline diff runs/a gpt2/tokenizer.json unseen/*.txt --json

    >>> found = bpe_pipeline.diff("my-tokenizer", bpe_pipeline.Tokenizer.from_merges([(b"l", b"o")]), texts=["low"])
    >>> found.equal, found.found.tokens.only[0]
    (False, ((b'low',), (b'er',)))
    >>> found.sources[0].tokens
    (1, 2)

    Returns:
        A value with `equal` and `to_json()`.

    Raises:
        InputError: a tokenizer or a text cannot be read.
    """
    options = session.options
    with checking():
        from bpe_pipeline.extensions.inspect.diff import diff

        return diff(options.first, options.second, options.inputs or (), options.texts, options.exclude or ())


@command(group=INSPECT, takes=DoctorOptions, positional=("path", "inputs"), returns=_examined)
def doctor(session: Session) -> Any:
    """Find what is wrong with a tokenizer, and how to fix it.

    TOKENIZER is a directory or file, of this package or another's. Its files are compared with each other and, id by
    id, in each installed library that reads them; tokens, special tokens, settings and round trips are checked. The
    exit code is 1 if anything is wrong, 3 if nothing could be checked.

    \b
    bpe-pipeline doctor runs/a/tokenizer
    bpe-pipeline doctor downloaded/model --sample unseen.txt --json

    >>> examined = bpe_pipeline.doctor("my-tokenizer")
    >>> examined.of("wrong")
    ()
    >>> [one.about for one in examined.of("advice")]
    ['special tokens']

    Returns:
        A value with the `findings`.

    Raises:
        InputError: there is no such path, or text that cannot be read.
        RunDirectoryError: a run has no tokenizer yet, or is damaged.
    """
    options = session.options
    with checking():
        from bpe_pipeline.extensions.inspect.doctor import doctor

        examined = doctor(options.path, options.inputs or (), options.counts, session.listener)
        return replace(examined, strict=options.strict)


COMMANDS = (explain, diff, doctor)
