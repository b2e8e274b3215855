"""What the tests of trainers run in the interpreter that has them: rows of LLaMA-Factory, a tiny model, TRL's trainer.

python trainer_scripts.py rows CONFIG.json ...   tokenizes each and writes CONFIG.rows.json: split -> rows
python trainer_scripts.py model TOKENIZER DIR    makes a random model with a tokenizer
python trainer_scripts.py trl MODEL ROWS         trains for two steps
"""

import json
import shutil
import sys
from pathlib import Path

COLUMNS = ("input_ids", "labels", "attention_mask", "position_ids")


def rows(*configs: str) -> None:
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    for config in configs:
        model, data, training, _, _ = get_train_args(json.loads(Path(config).read_text()))
        loaded = load_tokenizer(model)
        template = get_template_and_fix_tokenizer(loaded["tokenizer"], data)
        module = get_dataset(template, model, data, training, stage="sft", **loaded)
        found = {}
        for split, name in (("train", "train_dataset"), ("validation", "eval_dataset")):
            if name in module:
                kept = [column for column in COLUMNS if column in module[name].column_names]
                found[split] = [{column: row[column] for column in kept} for row in module[name]]
        Path(config).with_suffix(".rows.json").write_text(json.dumps(found))


def model(tokenizer: str, directory: str) -> None:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    size = len(AutoTokenizer.from_pretrained(tokenizer))
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=size, num_key_value_heads=2, **layers)).save_pretrained(directory)
    for path in Path(tokenizer).iterdir():
        shutil.copy(path, directory)


def trl(directory: str, tokenized: str) -> None:
    from datasets import load_from_disk
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    settings = {"max_steps": 2, "per_device_train_batch_size": 2, "report_to": [], "use_cpu": True, "logging_steps": 1}
    trainer = SFTTrainer(
        directory,
        args=SFTConfig(f"{directory}-trl", bf16=False, **settings),
        train_dataset=load_from_disk(tokenized),
        processing_class=AutoTokenizer.from_pretrained(directory),
    )
    sys.stdout.write(f"loss {trainer.train().training_loss}\n")


if __name__ == "__main__":
    {"rows": rows, "model": model, "trl": trl}[sys.argv[1]](*sys.argv[2:])
