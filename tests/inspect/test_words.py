"""Words of subwords, and attention merged to words."""

import pytest
import torch

from glassformer.data import grammar
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.inspect.words import Side, Word, merged, readable, side, word_spans


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ("▁A ▁red ▁bi cycle . </s>", "▁A | ▁red | ▁bi cycle | ."),
        ("<s> ▁What ▁a ▁film !", "▁What | ▁a | ▁film | !"),
        ("▁l ' homme ▁s ' habille", "▁l ' homme | ▁s ' habille"),
        ("▁l' é cole , ▁l' été ▁ ?", "▁l' é cole | , | ▁l' été | ▁ ?"),
        ("▁is n ' t - it ...", "▁is n ' t - it | ..."),
        ("▁( a ) b", "▁( | a | ) | b"),
        ("▁ <0xE2> <0x98> <0x83> ▁x", "▁ <0xE2> <0x98> <0x83> | ▁x"),
        ("<s> </s>", ""),
        ("▁ ▁a", "▁ | ▁a"),
        ("a </s> </s> b", "a | b"),
    ],
)
def test_words_begin_at_spaces_and_punctuation_is_separate(tokens: str, words: str) -> None:
    tokens = tokens.split()
    found = [" ".join(tokens[start:end]) for start, end in word_spans(tokens)]
    assert " | ".join(found) == words


def test_each_token_is_in_one_word_or_a_mark() -> None:
    texts = [text for p in grammar.pairs("train", 40) for text in (p.source, p.target)]
    tokenizer = Tokenizer.train(texts, 120)
    for text in texts:
        (ids,) = tokenizer.encode([text])
        found = side(tokenizer, text, [BOS, *ids, EOS])
        assert found.marks == {0, len(ids) + 1}
        inside = [t for word in found.words for t in range(word.start, word.end)]
        assert inside == list(range(1, len(ids) + 1))
        assert "".join(word.text for word in found.words) == text.replace(" ", "")
        assert [w.text for w in found.groups()] == ["<s>", *(w.text for w in found.words), "</s>"]
        assert found.groups(marks=False) == found.words
        assert len(found.each()) == len(ids) + 2 and len(found.each(marks=False)) == len(ids)


def test_a_character_of_several_byte_tokens_is_one_word() -> None:
    tokenizer = Tokenizer.train(["a dog"] * 5, 400, byte_fallback=True)
    (ids,) = tokenizer.encode(["a ☃ dog"])
    assert [word.text for word in side(tokenizer, "", ids).words] == ["a", "☃", "dog"]


def test_the_decoder_input_is_the_output_shifted_by_one() -> None:
    words = (Word("ab", 0, 2), Word("c", 2, 3))
    output = Side("ab c", (10, 11, 12, EOS), ("▁a", "b", "▁c", "</s>"), words)
    read = output.shifted(BOS, "<s>")
    assert read.ids == (BOS, 10, 11, 12) and read.tokens == ("<s>", "▁a", "b", "▁c")
    assert read.words == (Word("ab", 1, 3), Word("c", 3, 4)) and read.marks == {0}
    cut = Side("ab c", (10, 11, 12), ("▁a", "b", "▁c"), words).shifted(BOS, "<s>")
    assert cut.words == (Word("ab", 1, 3),) and cut.marks == {0}


def test_merged_attention_is_summed_over_columns_and_the_mean_over_rows() -> None:
    attention = torch.rand(2, 3, 4, 5).softmax(-1)
    rows, columns = [Word("", 0, 1), Word("", 1, 4)], [Word("", 0, 3), Word("", 3, 5)]
    words = merged(attention, rows, columns)
    assert words.shape == (2, 3, 2, 2)
    torch.testing.assert_close(words.sum(-1), torch.ones(2, 3, 2))
    torch.testing.assert_close(words[..., 0, 0], attention[..., 0, :3].sum(-1))
    torch.testing.assert_close(words[..., 1, 1], attention[..., 1:, 3:].sum(-1).mean(-1))
    each = [Word("", t, t + 1) for t in range(5)]
    assert torch.equal(merged(attention, each[:4], each), attention)
    assert merged(attention, [], columns).shape == (2, 3, 0, 2)
    assert merged(attention, rows, []).shape == (2, 3, 2, 0)


def test_tokens_are_shown_without_the_mark_of_a_space() -> None:
    assert [readable(t) for t in ("▁dog", "s", "▁", "</s>")] == ["dog", "s", "▁", "</s>"]


def test_words_end_at_the_marks_of_an_imported_tokenizer() -> None:
    tokens = ["<|start|>", "▁a", "b", "<|end|>", "▁c"]
    assert word_spans(tokens, {"<|start|>", "<|end|>"}) == [(1, 3), (4, 5)]
