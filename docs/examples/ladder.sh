#!/bin/bash
# Tokenizers of 16,384 to 131,072 tokens of one corpus: one count, one merge list, and a tokenizer of each size.
# bash ladder.sh CORPUS OUTPUT [OPTION ...]
bpe-pipeline train "$1" --output "$2" --vocab-size "${SIZES:-131072,65536,32768,16384}" --pattern o200k "${@:3}"
