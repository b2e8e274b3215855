"""The numbers of TokEval 1.0 for ten tokenizers on a parallel text, to compare ours with.

    python tests/support/tokeval.py [FILE]     write them to tests/report/tokeval.json; TokEval has to be installed

TokEval is https://github.com/cimeister/tokenizer-intrinsic-evals; its package is called tokenizer_analysis.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import bpe_pipeline
from bpe_pipeline.reports.numbers import PARALLEL, SENTENCES

RECORDED = Path(__file__).parents[1] / "report" / "tokeval.json"
LINES = 12
CODE = "Python"
OPTIONS: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": 700},
    "gpt2 small": {"vocab_size": 290},
    "bytes": {"vocab_size": 257},
    "cl100k": {"vocab_size": 600, "pattern": "cl100k"},
    "o200k": {"vocab_size": 900, "pattern": "o200k"},
    "llama3": {"vocab_size": 500, "pattern": "llama3"},
    "nfc": {"vocab_size": 450, "pattern": "qwen2", "normalize": "nfc"},
    "uncut": {"vocab_size": 800, "pattern": "none"},
    "digits": {"vocab_size": 400, "pattern": "gpt2+digits1"},
    "superwords": {"vocab_size": 600, "superwords_from": 400, "pattern": "superbpe"},
}


def texts() -> dict[str, list[str]]:
    """Return the same lines in each language, with numbers, and lines of code, which are no translation."""
    lines: dict[str, list[str]] = {}
    for language in PARALLEL:
        words = list(SENTENCES[language]) if language in ("Chinese", "Japanese") else SENTENCES[language].split()
        space = "" if language in ("Chinese", "Japanese") else " "
        lines[language] = [
            f"{space.join(words[at:] + words[:at])} {37**at % 1_000_003} {'🌉' * (at % 3)}".strip()
            for at in range(LINES)
        ]
    lines[CODE] = [f"x{at} = y_{at}**2 - {at} * foo(z)+3 <= bar // 7 % {at}" for at in range(LINES)]
    return lines


def train(home: Path) -> dict[str, Path]:
    """Train the tokenizers; return their files by name."""
    (home / "text.txt").write_text("\n".join(line for lines in texts().values() for line in lines), encoding="utf-8")
    files = {}
    for name, options in OPTIONS.items():
        bpe_pipeline.train(home / "text.txt", output=home / name, export=["hf"], **options)
        files[name] = home / name / "tokenizer" / "tokenizer.json"
    return files


def values_of(files: dict[str, Path]) -> dict[str, dict[str, dict[str, float]]]:
    """Return TokEval's values by tokenizer, number and language; "" is all of them."""
    from tokenizer_analysis.config.text_measurement import create_default_configs
    from tokenizer_analysis.core.input_providers import RawTokenizationProvider
    from tokenizer_analysis.core.input_types import InputSpecification
    from tokenizer_analysis.core.tokenizer_wrapper import HuggingFaceTokenizer
    from tokenizer_analysis.metrics import basic, gini, information_theoretic, utf8_integrity
    from transformers import PreTrainedTokenizerFast

    def provider(lines: dict[str, list[str]]) -> Any:
        loaded = {name: PreTrainedTokenizerFast(tokenizer_file=str(file)) for name, file in files.items()}
        wrapped = {name: HuggingFaceTokenizer(name, one, {}) for name, one in loaded.items()}
        return RawTokenizationProvider(
            {name: InputSpecification(tokenizer_name=name, tokenizer=one, texts=lines) for name, one in wrapped.items()}
        )

    lines, units = texts(), create_default_configs()
    del lines[CODE]
    given = provider(lines)
    found = basic.BasicTokenizationMetrics(given).compute(cer_time_budget_s=0.001)
    for unit in ("bytes", "characters"):
        metrics = information_theoretic.InformationTheoreticMetrics(given, measurement_config=units[unit])
        found[unit] = metrics.compute_compression_rate(given.get_tokenized_data())
        found["gini " + unit] = gini.TokenizerGiniMetrics(given, units[unit]).compute()["tokenizer_fairness_gini"]
    found["renyi"] = information_theoretic.InformationTheoreticMetrics(given).compute()["renyi_efficiency"]
    found["gini lines"] = gini.TokenizerGiniMetrics(given, units["lines"]).compute()["tokenizer_fairness_gini"]
    found |= utf8_integrity.UTF8IntegrityMetrics(given).compute()
    of = {name: {kind: found[kind]["per_tokenizer"][name] for kind in found} for name in files}
    return {name: _values(one) for name, one in of.items()}


def _values(of: dict[str, Any]) -> dict[str, dict[str, float]]:
    def by(kind: str, member: str) -> dict[str, float]:
        values = {"": of[kind]["global"], **of[kind]["per_language"]}
        return {name: value[member] for name, value in values.items() if value[member] is not None}

    used = of["vocabulary_utilization"]
    used = {"global": {"utilization": used["global_utilization"]}, "per_language": used["per_language"]}
    of = {**of, "vocabulary_utilization": used}
    return {
        "vocabulary_used": by("vocabulary_utilization", "utilization"),
        "bytes_per_token": {"": of["bytes"]["global"]["compression_rate"], **of["bytes"]["per_language"]},
        "characters_per_token": {
            "": of["characters"]["global"]["compression_rate"],
            **of["characters"]["per_language"],
        },
        "renyi_2_5": {"" if name == "overall" else name: value for name, value in of["renyi"]["renyi_2.5"].items()},
        "integrity": by("utf8_token_integrity", "completeness_rate"),
        "round_trip": {"": of["reconstruction_fidelity"]["overall"]["exact_match_rate"]},
        "gini": {unit: of[f"gini {unit}"]["gini_coefficient"] for unit in ("lines", "characters")},
    }


def rounded(values: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Round to nine digits behind the point, which is what is stored."""
    return {
        name: {number: {one: round(value, 9) for one, value in of.items()} for number, of in found.items()}
        for name, found in values.items()
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else RECORDED
    with tempfile.TemporaryDirectory() as scratch:
        values = rounded(values_of(train(Path(scratch))))
    parts = (
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"{json.dumps(one)}: {json.dumps(of)}" for one, of in found.items())
        + "}"
        for name, found in values.items()
    )
    target.write_text("{" + ",\n".join(parts) + "}\n")
    sys.stdout.write(f"{target}\n")
