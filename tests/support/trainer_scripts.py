"""What the tests of trainers run in the interpreter that has them: rows of LLaMA-Factory, a tiny model, TRL's trainer.

python trainer_scripts.py rows CONFIG.json ...   tokenizes each and writes CONFIG.rows.json: split -> rows
python trainer_scripts.py model TOKENIZER DIR    makes a random model with a tokenizer
python trainer_scripts.py encoded TOKENIZER FILE reads [options, conversations] and writes the row of each, or null
python trainer_scripts.py aligned FILE           reads [entry of dataset_info.json, row] and writes the messages of each
python trainer_scripts.py trl TOKENIZER ROWS ... trains a random model for two steps on each; writes TOKENIZER/trl.json
"""

import copy
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


def encoded(tokenizer: str, path: str) -> None:
    from llamafactory.data.processor import SupervisedDatasetProcessor
    from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments
    from transformers import AutoTokenizer

    known, found = copy.deepcopy(TEMPLATES), []  # options change templates
    for options, conversations in json.loads(Path(path).read_text()):
        TEMPLATES.update(copy.deepcopy(known))
        loaded, data = AutoTokenizer.from_pretrained(tokenizer), DataArguments(dataset="any", **options)
        template = get_template_and_fix_tokenizer(loaded, data)
        processor = SupervisedDatasetProcessor(template=template, tokenizer=loaded, processor=None, data_args=data)
        for one in conversations:
            row = {"_prompt": one["messages"][:-1], "_response": one["messages"][-1:], "_system": one["system"]}
            row |= {"_tools": one["tools"], "_images": None, "_videos": None, "_audios": None}
            made = processor.preprocess_dataset({name: [value] for name, value in row.items()})
            ids = made["input_ids"]
            found.append({"input_ids": ids[0], "labels": made["labels"][0]} if ids else None)
    Path(path).write_text(json.dumps(found))


def aligned(path: str) -> None:
    from llamafactory.data.converter import get_dataset_converter
    from llamafactory.data.parser import DatasetAttr
    from llamafactory.hparams import DataArguments

    found = []
    for entry, row in json.loads(Path(path).read_text()):
        columns = DatasetAttr("file", dataset_name="any")
        columns.join(entry)
        try:
            made = get_dataset_converter(columns.formatting, columns, DataArguments(dataset="any"))(row)
        except KeyError:  # an unknown role of openai rows ends its run
            made = {"_prompt": [], "_response": [], "_system": None}
        found.append([made["_prompt"] + made["_response"], made["_system"] or ""])
    Path(path).write_text(json.dumps(found))


def model(tokenizer: str, directory: str) -> None:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    size = len(AutoTokenizer.from_pretrained(tokenizer))
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=size, num_key_value_heads=2, **layers)).save_pretrained(directory)
    for path in Path(tokenizer).iterdir():
        shutil.copy(path, directory)


def trl(directory: str, *tokenized: str) -> None:
    """Train for two steps on each, by its name, and write batches and loss; rows packed by `neat` as the page does."""
    import torch
    from datasets import load_from_disk
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    known = {}
    exec(Path(directory, "page.py").read_text(), known)
    tokenizer, found = AutoTokenizer.from_pretrained(directory), {}
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = {"max_steps": 2, "per_device_train_batch_size": 2, "report_to": [], "use_cpu": True, "bf16": False}
    for path in tokenized:
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, **layers))
        rows, packed = load_from_disk(path), Path(path).name == "neat"
        if packed:
            rows = rows.map(known["parts"], remove_columns=["attention_mask", "position_ids"])
        config = SFTConfig(f"{path}-trl", max_length=None, padding_free=packed, learning_rate=0.0, **settings)
        trainer = SFTTrainer(model, args=config, train_dataset=rows, processing_class=tokenizer)
        batches = [trainer.data_collator([trainer.train_dataset[at]]) for at in range(len(rows))]
        model.eval()
        with torch.no_grad():
            losses = [float(model(**batch, num_items_in_batch=1).loss) for batch in batches]
        model.train()
        names = ("input_ids", "labels", "attention_mask", "position_ids")
        lists = [{name: one[name].tolist() for name in names if name in one} for one in batches]
        found[Path(path).name] = {"batches": lists, "loss": sum(losses), "trained": trainer.train().training_loss}
    Path(directory, "trl.json").write_text(json.dumps(found))


if __name__ == "__main__":
    commands = {"rows": rows, "encoded": encoded, "aligned": aligned, "model": model, "trl": trl}
    commands[sys.argv[1]](*sys.argv[2:])
