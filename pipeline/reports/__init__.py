"""What a run found out, for people and for machines.

tokens.py           what a vocabulary holds: lengths, scripts, tokens that deserve a look
measure.py          a sample cut by a tokenizer: fertility, whole words, Rényi efficiency
numbers.py          all of it together, as `report.json` holds it; numbers_worker.py computes it
tables.py           the same as tables and sentences, for report.txt and the page
plots.py, page.py   and as one page, report.html
summary.py          the summary at the end of a command; progress.py: what it shows before
"""
