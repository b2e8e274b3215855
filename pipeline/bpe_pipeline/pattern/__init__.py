"""Patterns cut documents into pre-tokens. `compiler.compile_pattern` takes one and returns a
`compiled.CompiledPattern`.

A pattern is a preset's name or a regular expression in the dialect of the `regex` package, with `$` as the very end of
the document. One of the supported subset (see parse.py) becomes an automaton of the native core; any other runs on
`regex` itself, slower, and `refusal` says why.
"""
