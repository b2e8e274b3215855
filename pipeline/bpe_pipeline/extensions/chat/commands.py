"""The command of chat data."""

from dataclasses import replace
from typing import Any

from bpe_pipeline.commands.declaration import Session, command
from bpe_pipeline.commands.preload import ENCODING
from bpe_pipeline.extensions.chat.options import EncodeChatOptions, of_llamafactory


def _encode_rows() -> object:
    from bpe_pipeline.extensions.chat import rows_worker, training_rows

    return rows_worker, training_rows


@command(
    group="Chat data",
    takes=EncodeChatOptions,
    python="",
    workers=replace(ENCODING, preload=(_encode_rows,)),
    of_file=of_llamafactory,
)
def encode_chat(session: Session) -> Any:
    """Encode chat data into rows with labels, for fine-tuning.

    INPUT is files with rows of messages, conversations, or instruction and output; --dataset-info names data sets.

    \b
    bpe-pipeline encode-chat data.jsonl --template llama3 --tokenizer runs/a --pack neat --output sft
    """
    from dataclasses import replace

    from bpe_pipeline.commands.named_tokenizer import used_of
    from bpe_pipeline.extensions.chat.encode import run_encode_chat
    from bpe_pipeline.tokenizer.formats.files import load_model

    tokenizer = session.options.tokenizer
    summary = run_encode_chat(session.options, load_model(tokenizer), session.executor, session.listener)
    used, others = used_of(tokenizer)
    return replace(summary, tokenizer=used, others=others)


COMMANDS = (encode_chat,)
