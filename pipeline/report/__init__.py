"""What a run found out, for people and for machines.

tokens.py           what a vocabulary holds: lengths, scripts, tokens that deserve a look
merged.py           what the merge counts say: bytes per token at every size, counts against ranks
measure.py          a sample cut by a tokenizer: fertility, whole words, Rényi efficiency; sentences.py: in 14 languages
numbers.py          all of it together, as `report.json` holds it; computed in a worker
text.py             the same for report.txt
plots.py, page.py   and as one page, report.html
summary.py          the summary at the end of a run; encoded.py: of an encoding
"""
