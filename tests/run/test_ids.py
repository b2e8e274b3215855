"""Special tokens with their roles, and the number of merges that a vocabulary size leaves."""

import pytest

from bpe_pipeline.base.errors import UsageError
from bpe_pipeline.run.ids import Reserved, Roles, SpecialTokens, check_added, check_special_tokens


def test_tokens_with_a_role_count_and_reserved_ones_come_last_and_within_the_size() -> None:
    assert SpecialTokens(("<|a|>",)).named() == ["<|a|>"]
    roles = Roles(bos="<s>", eos="</s>", pad="</s>", separator="<|a|>")
    assert SpecialTokens(("<|a|>",), roles).named() == ["<|a|>", "<s>", "</s>"]
    assert SpecialTokens(("<|pad|>", "<|a|>"), Roles(pad="<|pad|>")).named() == ["<|pad|>", "<|a|>"]
    assert SpecialTokens(("<|a|>",), Roles(pad="<|pad|>")).merge_budget(1000) == 742
    special = SpecialTokens(("<|a|>", "<|reserved_special_token_1|>"), reserved=Reserved(2))
    assert special.merge_budget(1000) == 740
    reserved = ["<|reserved_special_token_0|>", "<|reserved_special_token_2|>"]
    assert special.texts(996) == [*special.separators, *reserved]
    assert SpecialTokens(("<|a|>",)).merge_budget(257) == 0
    with pytest.raises(UsageError, match="at least 258"):
        SpecialTokens(("<|a|>",), Roles(pad="<pad>")).merge_budget(257)
    with pytest.raises(UsageError, match="too large"):
        SpecialTokens().merge_budget(1 << 40)


@pytest.mark.parametrize(("size", "rounded"), [(50257, 50304), (50304, 50304), (300, 320)])
def test_sizes_are_rounded_up_with_reserved_tokens(size: int, rounded: int) -> None:
    special = SpecialTokens(("<|a|>",), Roles(pad="<pad>"), Reserved(1, 64))
    ordinary = 256 + special.merge_budget(size)
    assert ordinary + len(special.texts(ordinary)) == rounded
    assert (ordinary - 9 + len(special.texts(ordinary - 9))) % 64 == 0  # where the corpus has fewer merges


@pytest.mark.parametrize(
    ("special_tokens", "separator"),
    [
        (["<s>", "<|endoftext|>"], "<|endoftext|>"),
        (["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], "<|end_of_text|>"),
        (["<pad>", "<|im_start|>", "<|im_end|>", "<doc>"], "<doc>"),
        (["<|im_start|>", "<|im_end|>"], None),
        (["<mine>", "<other>"], "<other>"),
        ([], None),
    ],
)
def test_separator_is_no_pad_bos_or_chat_mark(special_tokens: list[str], separator: str | None) -> None:
    assert Roles(bos="<mine>").separator_among(special_tokens) == separator


def test_a_long_special_token_is_cut_in_messages() -> None:
    long = "x" * 5_000_000
    for refuse, texts in ((check_special_tokens, [long, long]), (check_added, [long]), (check_added, [" " + long])):
        with pytest.raises(UsageError) as raised:
            refuse(texts)
        assert len(str(raised.value)) < 500
