"""What a run found out, for people and for machines.

result.py           what a command returns: parts that it shows, and the renderers to text and JSON
tokens.py           what a vocabulary holds: lengths, scripts, tokens that deserve a look
measure.py          a sample cut by a tokenizer: fertility, whole words, Rényi efficiency
numbers.py          all of it together, as `report.json` holds it; numbers_worker.py computes it
tables.py           what is shown of them, for report.txt, the page and the model card
plots.py, page.py   and as one page, report.html
summary.py          the results of training and encoding, and the report; progress.py: what is shown before
"""
