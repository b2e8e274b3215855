"""An option that is given twice adds up if it holds several values, and is refused otherwise: all of all commands."""

import click
import pytest
from command import refused, run_here

from bpe_pipeline.cli import all_commands
from bpe_pipeline.pattern.token_rules import TokenRule
from bpe_pipeline.run.options import RECORDS
from bpe_pipeline.run.values import parsed, reader_of

SEVERAL = {  # of the table of options: two values, each as a flag has it
    "vocab_size": (("48,000", "1k,2k"), (48_000, 1000, 2000)),
    "special_tokens": (("<a>", "<b>"), ("<a>", "<b>")),
    "split_at": (("<a>", "<b>"), ("<a>", "<b>")),
    "added_special_tokens": (("<a>", "<b>"), ("<a>", "<b>")),
    "added_tokens": (("<a>", "<b>"), {"<a>": TokenRule(), "<b>": TokenRule()}),
    "export": (("hf", "gpt2,gguf"), ("hf", "gpt2", "gguf")),
    "exclude": (("*.{log,tmp}", "a,b"), ("*.{log,tmp}", "a,b")),
    "weights": (("2", "1/3"), ("2", "1/3")),
    "shares": (("sw=5%", "a=b=1/3"), ("sw=1/20", "a=b=1/3")),
    "dataset": (("a", "b,c"), ("a", "b", "c")),
}


@pytest.mark.parametrize("command", all_commands())
def test_a_repeated_option_adds_up_or_is_refused(command: str) -> None:
    taken = all_commands()[command]
    for option in taken.params:
        if not isinstance(option, click.Option) or option.is_eager:  # --version prints and stops
            continue
        flag, name = option.opts[0], str(option.name)
        if not option.multiple:
            words = [flag, flag] if option.is_flag else [flag, "1", flag, "2"]
            assert f"{flag} is given twice; give it once" in refused(run_here(command, *words), 2)
            continue
        of_table = name in SEVERAL and flag != "--sample"
        values, held = SEVERAL[name] if of_table else (("1", "2"), ())
        context = click.Context(taken, resilient_parsing=True)  # what else is missing is no concern here
        taken.parse_args(context, [word for value in values for word in (flag, value)])
        assert list(map(str, context.params[name])) == [str(option.type(value)) for value in values]
        if of_table:
            assert parsed(name, context.params[name], reader_of(RECORDS[name])) == held


def test_every_option_that_is_a_list_can_be_repeated() -> None:
    assert {name for name, record in RECORDS.items() if record.several} - {"inputs"} == set(SEVERAL)
