"""A command is declared once: what it takes, what it says, and the function that carries it out.

The command line, its help and completion, the function of Python and its reference are derived from the declaration. A
declaration imports little: its function imports what the command needs once worker processes have started.
"""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, get_type_hints

from bpe_pipeline.base.errors import ExportRefusedError, OtherKindError, UsageError, unfit
from bpe_pipeline.base.system import cached_property
from bpe_pipeline.commands.preload import TRAINING
from bpe_pipeline.executors import WorkerSetup
from bpe_pipeline.run.extensions import Imported
from bpe_pipeline.run.keywords import keyword_lines, keyword_type, keywords_of, without_flags
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import ClusterOptions, Values, WorkOptions, flag_of
from bpe_pipeline.run.record import ARGUMENT, Record, Scope

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

TRAIN, USE, INSPECT, SYSTEM = "Train", "Use", "Inspect", "Counts and system"
TITLES = (TRAIN, USE, "Chat data", "Change", INSPECT, SYSTEM)  # in the help, in this order; others follow
_PROGRESS = "whether to show how far the work is: bars on a terminal and in a notebook, elsewhere lines."
_SECTION = re.compile(r"^(?:Returns|Yields|Raises):$", re.MULTILINE)


@dataclass(frozen=True)
class Session:
    """What a command carries out.

    options: the value that it takes. in_python: whether a program called the function.
    """

    options: Any
    executor: Any = None
    listener: Any = None
    in_python: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Command:
    """A command, and a public function.

    story: carries it out, and returns a `Result`, or one and what a call from Python returns is made of. name: on the
    command line; "" for a function of Python alone. python: the name of the function; "" for a command alone.
    positional: what the function takes by position, in this order; required: what it needs, though the command does
    not. returns: imports the type of what the function returns, or what makes that of what the story returned. workers:
    how they start; None: the work is done here, without an executor and without progress. works: whether options are
    for workers at all. settled: takes what other options say from the options given. of_file: returns ours from a
    configuration file that may have another program's names of options. too_many: why there are no more arguments.
    """

    story: Callable[[Session], Any]
    takes: type[Values]
    group: str = ""
    name: str = ""
    python: str = ""
    positional: Sequence[str] = ()
    required: Sequence[str] = ()
    returns: Imported | None = None
    workers: WorkerSetup | None = TRAINING
    works: Callable[[Any], bool] = field(default=lambda options: not getattr(options, "dry_run", False))
    settled: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    of_file: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    too_many: str = ""

    @cached_property
    def _text(self) -> tuple[str, str, str]:
        """The docstring of the story: the help, what follows its examples, for Python, and its sections."""
        text = inspect.cleandoc(self.story.__doc__ or "")
        start = _SECTION.search(text)
        text, sections = (text[: start.start()], text[start.start() :]) if start else (text, "")
        before, mark, examples = text.partition("\n\b\n")
        if mark:
            lines, _, more = examples.partition("\n\n")
            return f"{before}{mark}{lines}".strip(), more.strip(), sections.strip()
        before, mark, more = text.partition(">>> ")
        return before.strip(), (mark + more).strip(), sections.strip()

    @property
    def help(self) -> str:
        """What the command's help says."""
        return self._text[0]

    @property
    def explicit(self) -> dict[str, Record]:
        """The parameters of the function that have a name in its signature; the other options are keywords."""
        own = {
            name: one
            for name, one in keywords_of(self.takes).items()
            if one.scope is Scope.CALL or one.group == ARGUMENT
        }
        return {name: self.takes.records[name] for name in dict.fromkeys((*self._by_position, *own))}

    @property
    def _by_position(self) -> Sequence[str]:
        return self.positional or [name for name, one in self.takes.records.items() if one.group == ARGUMENT]

    @property
    def _is_work(self) -> bool:
        return issubclass(self.takes, WorkOptions) and self.workers is not None

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function of Python."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords).arguments
            progress, options = bound.pop("progress", False), bound.pop("options", {})
            if refused := sorted(options.keys() & self._of_the_command):
                raise UsageError(f"{refused[0]} is for the command: use bpe-pipeline {self.name} {flag_of(refused[0])}")
            return self._called({**bound, **options}, progress)

        signature = self._signature()
        call.__name__ = call.__qualname__ = self.python
        call.__module__ = self.story.__module__
        call.__doc__ = self._docstring()
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.takes = self.takes  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
        call.__annotations__["return"] = signature.return_annotation
        return call

    @property
    def _of_the_command(self) -> set[str]:
        records = self.takes.records
        return {name for name, one in records.items() if one.command_only and name not in ("quiet", "log_json")}

    def _called(self, given: dict[str, Any], progress: bool) -> Any:
        from bpe_pipeline.reports.progress import for_python

        explicit = self.explicit

        def spell(name: str) -> str:
            return name if name in explicit else f"option {name!r}"

        if missing := [name for name in self.required if given.get(name) is None]:
            raise unfit(missing[0], "a value", None)
        if self.settled is not None:
            given = self.settled(given)
        options = make_options(self.takes, given, spell)
        with for_python(progress) as listener, self.executor(options) as executor:
            done = self.story(Session(options, executor, listener, in_python=True))
        if failure := getattr(done, "failure", ""):
            raise ExportRefusedError(failure)
        convert = self._returned
        return done if convert is None or isinstance(convert, type) else convert(done)

    @property
    def _returned(self) -> Any:
        """The type of what the function returns, or what makes that of what the story returned."""
        return None if self.returns is None else self.returns()

    def executor(self, options: Any) -> "AbstractContextManager[Any]":
        """Return the executor for these options, which starts when it is entered."""
        if self.workers is None or not self._is_work or not self.works(options):
            return contextlib.nullcontext()
        from bpe_pipeline.run.workers import executor_for, executor_here

        start = executor_for if issubclass(self.takes, ClusterOptions) else executor_here
        return start(options, self.workers)

    def _signature(self) -> Signature:
        by_position, parameters = self._by_position, list[Parameter]()
        for name, one in self.explicit.items():
            kind = Parameter.POSITIONAL_OR_KEYWORD if name in by_position else Parameter.KEYWORD_ONLY
            default = Parameter.empty if one.required or name in self.required else one.default
            parameters.append(Parameter(name, kind, default=default, annotation=keyword_type(one)))
        if self._is_work:
            parameters.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=False, annotation=bool))
        if self._keywords:
            parameters.append(Parameter("options", Parameter.VAR_KEYWORD, annotation=Any))
        returned = self._returned
        result = returned if returned is None or isinstance(returned, type) else get_type_hints(returned)["return"]
        return Signature(parameters, return_annotation=result)

    @property
    def _keywords(self) -> list[str]:
        return [name for name in keywords_of(self.takes) if name not in self.explicit]

    def _docstring(self) -> str:
        """Return the docstring of the function: the text, arguments, results and keywords."""
        shown, more, sections = self._text
        text = without_flags(shown.partition("\n\b\n")[0])
        for name, record in self.explicit.items():
            if record.group == ARGUMENT:
                text = re.sub(rf"(?<![\w-]){re.escape(record.spelling)}s?(?![\w=])", f"`{name}`", text)
        lines = [f"    {name}: {without_flags(record.help)}" for name, record in self.explicit.items()]
        lines += [f"    progress: {_PROGRESS}"] if self._is_work else []
        lines += ["    **options: the options that are listed below."] if self._keywords else []
        parts = [text.strip(), more, "\n".join(["Args:", *lines]), sections]
        if self._keywords:
            parts.append("\n".join(["Keyword Args:", *keyword_lines(self.takes, [*self.explicit])]))
        return "\n\n".join(part for part in parts if part)


def command(**said: Any) -> Callable[[Callable[[Session], Any]], Command]:
    """Declare a command by the function that carries it out. said: of `Command`; a command has the function's name."""

    def decorate(story: Callable[[Session], Any]) -> Command:
        named = {"name": story.__name__.replace("_", "-"), "python": story.__name__}
        return Command(story=story, **{**named, **said})

    return decorate


@contextlib.contextmanager
def checking(*wrong: type[Exception]) -> Iterator[None]:
    """Make 3 the exit code where something could not be compared or checked. wrong: errors that say what is wrong."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OtherKindError) or not isinstance(error, (UsageError, *wrong)):
            error.exit_code = 3  # type: ignore[attr-defined]
        raise
