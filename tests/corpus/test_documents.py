"""The judge of documents: one value for options, cuts and the core."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from bpe_pipeline import _core
from bpe_pipeline.corpus.documents import DocumentJudge
from bpe_pipeline.pattern.compiler import compile_pattern
from bpe_pipeline.run.options import CountOptions
from bpe_pipeline.run.record import Scope


@pytest.mark.parametrize("field", [field.name for field in fields(DocumentJudge)])
def test_the_core_reads_every_field(field):
    values = {name: value for name, value in vars(DocumentJudge()).items() if name != field}
    with pytest.raises(TypeError, match="judge"):
        _core.ChunkCounter(compile_pattern("gpt2").automaton, [], judge=SimpleNamespace(**values))


def test_the_default_judge_is_that_of_the_default_options():
    assert DocumentJudge.of(CountOptions().in_scope(Scope.COUNT)) == DocumentJudge()


@pytest.mark.parametrize("errors", ["replace", "strict", "skip"])
def test_only_documents_that_may_be_dropped_are_judged_whole(errors):
    assert DocumentJudge(errors).drops_documents is (errors == "skip")
    assert DocumentJudge(errors).needs_whole_documents is (errors == "skip")
    for selecting in ({"sample": 0.5}, {"max_document_chars": 1}):
        assert DocumentJudge(errors, **selecting).needs_whole_documents
