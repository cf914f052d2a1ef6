"""Word alignment: subwords find their words, attention its truth, and the right head wins."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from glassformer.config import RunSettings
from glassformer.data import grammar
from glassformer.data.tokenizer import Tokenizer
from glassformer.inspect.alignment import (
    Head,
    cross_attention,
    error_rate,
    error_rates,
    links,
    subword_owners,
    word_attention,
)
from glassformer.model.attention import MultiHeadAttention, record_attention
from glassformer.model.build import build
from glassformer.pipeline import Translator


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]


PAIRS = [
    Pair(
        "the red car waits",
        "l'auto rouge attend",
        ("the", "red", "car", "waits"),
        ("l'", "auto", "rouge", "attend"),
        frozenset({(0, 0), (2, 1), (1, 2), (3, 3)}),
    ),
    Pair(
        "now the dog sees the house",
        "le chien voit la maison maintenant",
        ("now", "the", "dog", "sees", "the", "house"),
        ("le", "chien", "voit", "la", "maison", "maintenant"),
        frozenset({(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (0, 5)}),
    ),
]
TOKENIZER = Tokenizer.train([text for p in PAIRS for text in (p.source, p.target)] * 5, 50)
SETTINGS = RunSettings.of(
    model={
        "vocab_size": 50, "d_model": 16, "n_heads": 2, "d_ff": 16,
        "encoder_layers": 2, "decoder_layers": 3,
    }
)  # fmt: skip
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.source)


def translator_of(model: nn.Module) -> Translator:
    return Translator(model, {"joint": TOKENIZER}, SETTINGS)


def owners(text: str, words) -> list[int | None]:
    return subword_owners(TOKENIZER.spans(text), text, words)


def random_attention(pair: Pair) -> torch.Tensor:
    sizes = [len(TOKENIZER.encode([text])[0]) + 1 for text in (pair.target, pair.source)]
    return torch.rand(*sizes).softmax(-1)


# Error rate and links


def test_error_rates_by_hand():
    a, b, c, d = (0, 0), (1, 1), (2, 2), (1, 2)
    assert error_rate([{a, b}], [{a, b}]) == 0
    assert error_rate([{a}], [{b}]) == 1
    assert error_rate([{a, b}], [{a, d}]) == pytest.approx(1 - 2 * 1 / 4)
    assert error_rate([{a, b, c}], [{a}]) == pytest.approx(1 - 2 * 1 / 4)
    assert error_rate([{a}], [{a, b, c}]) == pytest.approx(1 - 2 * 1 / 4)


def test_the_error_rate_counts_links_not_sentences():
    found, gold = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(1, 0)}, {(0, 0), (1, 1), (2, 2)}]
    assert error_rate(found, gold) == pytest.approx(1 - 2 * 3 / 8)


def test_every_sentence_needs_its_truth():
    with pytest.raises(ValueError, match="shorter"):
        error_rate([{(0, 0)}, {(0, 0)}], [{(0, 0)}])


def test_each_target_word_is_linked_to_what_it_attends_to_most():
    words = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.1]])
    assert links(words) == {(1, 0), (0, 1)}


# Subwords and their words

ELIDED = "Qui s'habille à l'école, l'été ?"
ELIDED_WORDS = ("Qui", "s'", "habille", "à", "l'", "école", ",", "l'", "été", "?")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["Qui", " s'", "habille", " à"], [0, 1, 2, 3]),
        (["", "Qu", "i", " ", "s", "'", "hab", "ille"], [None, 0, 0, None, 1, 1, 2, 2]),
        (["Qui", " s'hab", "ille"], [0, 2, 2]),
        (["Qui s", "'habille à l", "'é"], [1, 4, 5]),
        (list(ELIDED), [0, 0, 0, None, 1, 1, *[2] * 7, None, 3, None, 4, 4, *[5] * 5, 6, None, 7, 7,
                        8, 8, 8, None, 9]),
    ],
    ids=lambda value: "|".join(value) if isinstance(value[0], str) else "",
)  # fmt: skip
def test_a_subword_belongs_to_the_word_of_its_last_character(pieces, expected):
    ends = [len("".join(pieces[: i + 1])) for i in range(len(pieces))]
    spans = list(zip([0, *ends], ends, strict=False))
    assert "".join(pieces) == ELIDED[: ends[-1]]
    assert subword_owners(spans, ELIDED, ELIDED_WORDS) == expected


def test_a_word_that_comes_twice_is_two_words():
    text = "the dog and the other"
    spans = [(0, 3), (3, 7), (7, 11), (11, 15), (15, 21)]
    assert subword_owners(spans, text, text.split()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_owners_of_real_subwords_spell_the_words(kind):
    pairs = list(grammar.pairs("train", 60))
    tokenizer = Tokenizer.train([t for p in pairs for t in (p.source, p.target)], 100, kind)
    for pair in pairs:
        for text, words in [(pair.source, pair.source_words), (pair.target, pair.target_words)]:
            spans = tokenizer.spans(text)
            whole = ["" for _ in words]
            for (begin, end), word in zip(spans, subword_owners(spans, text, words), strict=True):
                if word is not None:
                    whole[word] += text[begin:end]
            assert tuple(spelt.strip() for spelt in whole) == words


# Attention between words


@EVERY_PAIR
@pytest.mark.parametrize("shift", [0, 1])
def test_rows_sum_to_the_attention_on_words(pair, shift):
    attention = random_attention(pair)
    words = word_attention(attention, translator_of(nn.Identity()), pair, shift)
    rows, columns = owners(pair.target, pair.target_words), owners(pair.source, pair.source_words)
    on_words = attention[:, [s for s, word in enumerate(columns) if word is not None]].sum(1)
    assert words.shape == (len(pair.target_words), len(pair.source_words))
    for i, row in enumerate(words):
        steps = [t + shift for t, word in enumerate(rows) if word == i]
        torch.testing.assert_close(row.sum(), on_words[steps].mean())


def test_source_subwords_are_summed_and_target_subwords_averaged():
    """Two source words of two and one subwords, two target words of one and two."""
    spans = {"ab c": [(0, 1), (1, 2), (2, 4)], "x yz": [(0, 1), (1, 3), (3, 4)]}
    tokenizer = SimpleNamespace(spans=spans.get)
    translator = SimpleNamespace(source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    pair = Pair("ab c", "x yz", ("ab", "c"), ("x", "yz"), frozenset())
    attention = torch.arange(16.0).reshape(4, 4)  # a row for <s>, a column for </s>
    for shift in (0, 1):
        a = attention[shift:].tolist()
        expected = [
            [a[0][0] + a[0][1], a[0][2]],
            [(a[1][0] + a[1][1] + a[2][0] + a[2][1]) / 2, (a[1][2] + a[2][2]) / 2],
        ]
        assert word_attention(attention, translator, pair, shift).tolist() == expected


def test_a_word_without_a_subword_of_its_own_gets_nothing():
    spans = {"l'a": [(0, 3)], "x": [(0, 1)]}
    tokenizer = SimpleNamespace(spans=spans.get)
    translator = SimpleNamespace(source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    pair = Pair("x", "l'a", ("x",), ("l'", "a"), frozenset())
    words = word_attention(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), translator, pair, 0)
    torch.testing.assert_close(words, torch.tensor([[0.0], [0.9]]))


@EVERY_PAIR
def test_cross_attention_is_that_of_the_forced_model(pair):
    translator = translator_of(build(SETTINGS.model))
    attention = cross_attention(translator, pair)
    source, target = translator.inputs(pair.source, pair.target)
    assert attention.shape == (3, 2, target.size(1), source.size(1))
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:3]))
    with record_attention(translator.model) as maps, torch.no_grad():
        translator.model(source, target)
    for layer in range(3):
        (expected,) = maps[f"decoder.layers.{layer}.cross_attention"]
        assert torch.equal(attention[layer], expected[0])


# The head that knows


class Planted(nn.Module):
    """Says nothing, and attends as `scores` tells it for each source: (layers, H, T, S)."""

    def __init__(self, layers: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "self_attention": MultiHeadAttention(heads, heads),
                    "cross_attention": MultiHeadAttention(heads, heads, cross=True),
                }
            )
            for _ in range(layers)
        )
        self.scores: dict[str, torch.Tensor] = {}

    def forward(self, source, target):
        for layer, scores in zip(self.layers, self.scores[str(source.tolist())], strict=True):
            q, k = torch.eye(target.size(1)).expand(len(scores), -1, -1), scores.mT
            layer["self_attention"].kernel(q[None], q[None], q[None], None, None, 0.0, 1.0)
            layer["cross_attention"].kernel(q[None], k[None], k[None], None, None, 0.0, 1.0)


def planted(head: Head, layers: int = 2, heads: int = 3) -> Translator:
    """A translator all of whose heads look about at random, but one, which knows the truth."""
    model = Planted(layers, heads)
    translator = translator_of(model)
    for pair in PAIRS:
        source, target = translator.inputs(pair.source, pair.target)
        scores = torch.randn(layers, heads, target.size(1), source.size(1))
        gold = {t: s for s, t in pair.alignment}
        columns = owners(pair.source, pair.source_words)
        for t, word in enumerate(owners(pair.target, pair.target_words)):
            if word is not None:
                scores[head.layer, head.head, t + head.shift, columns.index(gold[word])] = 20.0
        model.scores[str(source.tolist())] = scores
    return translator


@pytest.mark.parametrize("head", [Head(0, 2, 0), Head(1, 0, 1), Head(1, 2, 0)], ids=str)
def test_the_head_that_knows_the_truth_comes_first(head):
    rates = error_rates(planted(head), PAIRS)
    assert set(rates) == {Head(i, h, k) for i in range(2) for h in range(3) for k in (0, 1)}
    assert next(iter(rates)) == head
    assert rates.pop(head) == 0
    assert list(rates.values()) == sorted(rates.values())
    assert min(rates.values()) > 0


def test_a_head_says_where_it_is_read():
    assert str(Head(0, 2, 0)) == "layer 1, head 3, as the word is said"
    assert str(Head(3, 0, 1)) == "layer 4, head 1, as the word is read"
