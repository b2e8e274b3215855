"""The command of chat data."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.cli.command import Request, Session, carry_out, command, inputs, tokenizer_option
from pipeline.guests.chat.options import ChatOptions
from pipeline.storage import Location

if TYPE_CHECKING:
    from pipeline.reports.result import Result


@command(ChatOptions)
@inputs
@tokenizer_option
def encode_chat(request: Request, tokenizer: Location) -> None:
    """Encode chat data into rows with labels, for fine-tuning.

    INPUT is files with rows of messages, conversations, or instruction and output; --dataset-info names data sets.

    \b
    bpe-pipeline encode-chat data.jsonl --template llama3 --tokenizer runs/a --pack neat --output sft
    """
    from pipeline.run.workers import CHAT, executor_for

    def encode_rows(session: Session) -> "Result":
        from pipeline.guests.chat.encode import run_encode_chat
        from pipeline.tokenizer.formats.files import load_model

        options = session.options
        if "shard_format" not in session.given:
            options = replace(options, shard_format="arrow")
        summary = run_encode_chat(options, load_model(tokenizer), session.executor, session.listener)
        return replace(summary, tokenizer=tokenizer)

    carry_out(request, encode_rows, lambda options: executor_for(options, CHAT))
