"""Measures the trainer and its peers: one tool, one fresh process, one JSON line.

`python -m benchmarks compare FILE` measures, `render` turns the lines into the documentation's tables and charts.
Needs the standard library and psutil; nothing here is installed with the package, and nothing here installs
anything.
"""
