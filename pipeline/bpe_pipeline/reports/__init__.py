"""What a run found out, for people and for machines.

parts.py            what results show: rows, notes, tables, lists; as text and as HTML
result.py           what a command returns: its parts, its JSON, its advice
tokens.py           what a vocabulary holds: scripts, tokens that deserve a look
record.py           what is counted while a tokenizer cuts texts, once
definitions.py      the numbers that follow from it; formulas.py: of distributions
measure.py          a sample cut by tokenizers: by source and language, and how they compare
numbers.py          all of it together, as `report.json` holds it; numbers_worker.py computes it
verdict.py          the questions that a report answers first
tables.py           tables and figures of the numbers, for report.txt, the page and the model card
figure.py           a figure as a specification; drawing.py: by vl-convert
html.py             Jinja's templates; page.py: pages; model_card.py
summary.py          the result of training, and the report; encoding.py: the result of encoding
compared.py         other tokenizers to compare with; progress.py: what is shown while a command works
"""
