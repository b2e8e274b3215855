"""What the tests of trainers run in the interpreter that has them: a tiny model, TRL's trainer.

python trainer_scripts.py model TOKENIZER DIR    makes a random model with a tokenizer
python trainer_scripts.py trl TOKENIZER ROWS ... trains a random model for two steps on each; writes TOKENIZER/trl.json
"""

import json
import shutil
import sys
from pathlib import Path


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
    commands = {"model": model, "trl": trl}
    commands[sys.argv[1]](*sys.argv[2:])
