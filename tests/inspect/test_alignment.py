"""Word alignment: word attention, readings of heads, and the choice of a head."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.config import RunSettings
from glassformer.data.tokenizer import PAD, Tokenizer
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import DataError, SettingsError
from glassformer.inspect import word_attention as reading
from glassformer.inspect.alignment import (
    MIN_SENTENCES,
    Head,
    align,
    best_of_each,
    error_rates,
    links_of_all,
    most_informative,
    readings,
    tallies,
)
from glassformer.inspect.links import Tally, TextPair, by_share
from glassformer.inspect.word_attention import (
    check_lines,
    cross_attention,
    shares,
    word_attention,
    word_attentions,
)
from glassformer.model.attention import MultiHeadAttention, record_attention
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
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


def translator_of(model: nn.Module) -> Translator:
    """A pipeline around a planted model, with the parts that alignment uses."""
    real = isinstance(model, Transformer)
    decoder = TorchDecoder(model) if real else SimpleNamespace(model=model, max_target=None)
    return Translator(decoder, {"joint": TOKENIZER}, SETTINGS)


def random_attention(pair: Pair) -> torch.Tensor:
    sizes = [len(TOKENIZER.encode([text])[0]) + 1 for text in (pair.target, pair.source)]
    return torch.rand(*sizes).softmax(-1)


EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.source)


# Attention between words


def spelling(**spans) -> SimpleNamespace:
    """A stand-in for a translator with these subwords."""
    tokenizer = SimpleNamespace(spans={k.replace("_", " "): v for k, v in spans.items()}.get)
    return SimpleNamespace(source_tokenizer=tokenizer, target_tokenizer=tokenizer)


@EVERY_PAIR
@pytest.mark.parametrize("shift", [0, 1])
def test_rows_sum_to_the_attention_on_words(pair, shift):
    attention = random_attention(pair)
    words = word_attention(attention, translator_of(nn.Identity()), pair, shift)
    rows = shares(TOKENIZER.spans(pair.target), pair.target, pair.target_words)
    columns = shares(TOKENIZER.spans(pair.source), pair.source, pair.source_words)
    on_words = attention[:, : len(columns)] @ columns.sum(1)
    assert words.shape == (len(pair.target_words), len(pair.source_words))
    for i, row in enumerate(words):
        steps = [t + shift for t, share in enumerate(rows[:, i]) if share]
        assert {float(share) for share in rows[:, i]} <= {0.0, 1.0}
        torch.testing.assert_close(row.sum(), on_words[steps].mean())


def test_source_subwords_are_summed_and_target_subwords_averaged():
    """Two source words of two and one subwords, two target words of one and two."""
    translator = spelling(ab_c=[(0, 1), (1, 2), (2, 4)], x_yz=[(0, 1), (1, 3), (3, 4)])
    pair = Pair("ab c", "x yz", ("ab", "c"), ("x", "yz"), frozenset())
    attention = torch.arange(16.0).reshape(4, 4)  # a row for <s>, a column for </s>
    for shift in (0, 1):
        a = attention[shift:].tolist()
        expected = [
            [a[0][0] + a[0][1], a[0][2]],
            [(a[1][0] + a[1][1] + a[2][0] + a[2][1]) / 2, (a[1][2] + a[2][2]) / 2],
        ]
        assert word_attention(attention, translator, pair, shift).tolist() == expected
        both = word_attention(torch.stack([attention, 2 * attention]), translator, pair, shift)
        assert both.tolist() == [expected, (2 * torch.tensor(expected)).tolist()]


def test_words_that_share_a_subword_share_its_attention():
    translator = spelling(lab=[(0, 3)], x=[(0, 1)])
    attention = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    pair = Pair("x", "lab", ("x",), ("l", "ab"), frozenset())
    words = word_attention(attention, translator, pair, 0)
    torch.testing.assert_close(words, torch.tensor([[0.9], [0.9]]))
    pair = Pair("lab", "x", ("l", "ab"), ("x",), frozenset())
    words = word_attention(attention, translator, pair, 0)
    torch.testing.assert_close(words, torch.tensor([[0.3, 0.6]]))


@EVERY_PAIR
def test_cross_attention_equals_that_of_the_forced_model(pair):
    translator = translator_of(build(SETTINGS.model))
    attention = cross_attention(translator, pair)
    source, target = translator.inputs(pair.source, pair.target)
    assert attention.shape == (3, 2, target.size(1), source.size(1))
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:3]))
    with record_attention(translator.model) as maps, torch.no_grad():
        translator.model(source, target)
    for layer in range(3):
        (expected,) = maps[f"decoder.layers.{layer}.cross_attention"]
        torch.testing.assert_close(attention[layer], expected[0])


@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_batched_word_attention_equals_that_of_each_pair(budget, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 3)
    translator = translator_of(build(SETTINGS.model))
    pairs = [PAIRS[0], PAIRS[1], PAIRS[1], PAIRS[0], PAIRS[1]]
    found = list(word_attentions(translator, pairs, budget))
    assert len(found) == len(pairs)
    for pair, both in zip(pairs, found, strict=True):
        alone = cross_attention(translator, pair)
        for shift in (0, 1):
            expected = word_attention(alone, translator, pair, shift)
            torch.testing.assert_close(both[shift], expected)


def test_a_line_that_is_too_long_is_an_error_with_its_number():
    check_lines(["a", "b c"], [3, 8], 8, "source")
    with pytest.raises(DataError, match=r"Line 2 of the target has 9 subwords: 'b c'"):
        check_lines(["a", "b c"], [3, 9], 8, "target")


# Heads and their links


def random_words(m=4, n=3, layers=2, heads=3) -> torch.Tensor:
    words = torch.rand(2, layers, heads, m, n).softmax(-1)
    words[..., 1, :] = 0  # a word without a subword
    return words


def test_readings_select_a_head_or_average_heads():
    words = random_words()
    assert torch.equal(Head(1, 2, 0).of(words), words[0, 1, 2])
    assert torch.equal(Head(1, 2, 1, share=True).of(words), words[1, 1, 2])
    torch.testing.assert_close(Head(0, None, 1).of(words), words[1, 0].mean(0))
    torch.testing.assert_close(Head(None, None, 0).of(words), words[0].mean((0, 1)))


def test_links_of_all_readings_equal_those_of_each():
    words = random_words()
    found = links_of_all(words)
    heads = readings(2, 3)
    assert len(set(heads)) == len(heads) == len(found) == (2 * 3 + 2 + 1) * 4
    for head, sources in zip(heads, found.tolist(), strict=True):
        expected = {(s, t) for t, s in enumerate(sources) if s >= 0}
        assert head.links(head.of(words)) == expected
        assert sources[1] == -1 and {t for _, t in expected} == {0, 2, 3}


def test_by_share_a_word_that_all_attend_to_keeps_its_translation():
    """Both words attend most to the noun; only the article attends to the article."""
    attention = torch.tensor([[0.4, 0.5], [0.1, 0.9]])
    assert Head(0, 0, 0).links(attention) == {(1, 0), (1, 1)}
    assert Head(0, 0, 0, share=True).links(attention) == {(0, 0), (1, 1)}
    torch.testing.assert_close(by_share(attention).sum(0), torch.ones(2))


def test_a_head_is_described_by_layer_head_and_step():
    assert str(Head(0, 2, 0)) == "layer 1, head 3, word as output"
    assert str(Head(3, 0, 1)) == "layer 4, head 1, word as input"
    assert str(Head(1, None, 0, True)) == "layer 2, heads averaged, word as output, by share"
    assert str(Head(None, None, 1)) == "all heads averaged, word as input"


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("3.2", Head(2, 1, 0)),
        ("3.2+1", Head(2, 1, 1)),
        ("12", Head(11, None, 0)),
        ("3+1:share", Head(2, None, 1, True)),
        ("all", Head(None, None, 0)),
        ("all:share", Head(None, None, 0, True)),
    ],
)
def test_names_of_heads(name, head):
    assert Head.parse(name) == head and head.name == name


def test_names_of_heads_survive_a_round_trip():
    assert [Head.parse(head.name) for head in readings(3, 2)] == list(readings(3, 2))


@pytest.mark.parametrize("name", ["", "0.1", "1.0", "3.2+2", "3.2+", "3:shift", "all.1", "a", "-1"])
def test_a_malformed_head_name_is_an_error_with_examples(name):
    with pytest.raises(SettingsError, match=r"3\.2\+1"):
        Head.parse(name)


# A planted head


def test_a_head_outside_the_model_is_refused():
    Head.parse("2.4+1").check(layers=2, heads=4)
    Head.parse("all").check(layers=2, heads=4)
    for name in ("3", "3.1", "2.5"):
        with pytest.raises(SettingsError, match=rf"no head {name}.*\n.*2 layers with 4 heads"):
            Head.parse(name).check(layers=2, heads=4)


class Planted(nn.Module):
    """A model whose attention follows `scores` for each source: (layers, H, T, S)."""

    pad_id = PAD

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
        self.scores: dict[tuple[int, ...], torch.Tensor] = {}

    def features(self, source, target):
        rows = [self.scores[tuple(ids[ids != PAD].tolist())] for ids in source]
        for number, layer in enumerate(self.layers):
            # q = 1, so that q kᵀ are the scores; padding gets no attention
            k = torch.full((len(rows), rows[0].size(1), source.size(1), target.size(1)), -1e9)
            for b, scores in enumerate(rows):
                k[b, :, : scores.size(3), : scores.size(2)] = scores[number].mT
            q = torch.eye(target.size(1)).expand(*k.shape[:2], -1, -1)
            layer["self_attention"].kernel(q, q, q, None, None, 0.0, 1.0)
            layer["cross_attention"].kernel(q, k, k, None, None, 0.0, 1.0)


def planted(head: Head, pairs=PAIRS, layers: int = 2, heads: int = 3) -> Translator:
    """Return a translator with random heads and one head with gold attention."""
    model = Planted(layers, heads)
    translator = translator_of(model)
    for pair in pairs:
        source, target = translator.inputs(pair.source, pair.target)
        scores = torch.randn(layers, heads, target.size(1), source.size(1))
        gold = {t: s for s, t in pair.alignment}
        rows = shares(TOKENIZER.spans(pair.target), pair.target, pair.target_words)
        columns = shares(TOKENIZER.spans(pair.source), pair.source, pair.source_words)
        for t, row in enumerate(rows):
            if row.any():
                first = int(columns[:, gold[int(row.argmax())]].argmax())
                scores[head.layer, head.head, t + head.shift, first] = 20.0
        model.scores[tuple(source[0].tolist())] = scores
    return translator


@pytest.mark.parametrize("head", [Head(0, 2, 0), Head(1, 0, 1), Head(1, 2, 0)], ids=str)
def test_the_head_with_gold_attention_ranks_first(head):
    translator = planted(head)
    rates = error_rates(translator, PAIRS)
    assert set(rates) == set(readings(2, 3))
    assert list(rates.values()) == sorted(rates.values())
    assert best_of_each(tallies(translator, PAIRS))[head.family] == head
    plain = [which for which in rates if which.head is not None and not which.share]
    assert [which for which in plain if rates[which] == 0] == [head]


def test_tallies_equal_those_of_each_head():
    translator = planted(Head(0, 1, 0))
    ticks = []
    found = tallies(translator, PAIRS, 40, tick=lambda: ticks.append(1))
    assert tuple(found) == readings(2, 3) and len(ticks) == len(PAIRS)
    gold = [pair.alignment for pair in PAIRS]
    for head, tally in found.items():
        expected = Tally.of([linked for _, linked in align(translator, PAIRS, head)], gold)
        assert np.array_equal(tally.counts, expected.counts)


def test_the_lowest_error_rate_of_each_family_is_chosen():
    translator = planted(Head(1, 2, 1))
    found = tallies(translator, PAIRS)
    chosen = best_of_each(found)
    assert len(chosen) == 3 * 2 * 2
    for family, head in chosen.items():
        alike = [tally.error_rate for other, tally in found.items() if other.family == family]
        assert head.family == family and found[head].error_rate == min(alike)
    assert chosen["one head, as input"] == Head(1, 2, 1)


def test_pairs_without_words_have_no_links():
    pairs = [PAIRS[0], TextPair("", "", (), ()), TextPair("a", " ", ("a",), ()), PAIRS[1]]
    head = Head(0, 2, 0)
    found = list(align(planted(head), pairs, head))
    gold = [PAIRS[0].alignment, frozenset(), frozenset(), PAIRS[1].alignment]
    assert [linked for _, linked in found] == gold
    assert [tuple(seen.shape) for seen, _ in found] == [(4, 4), (0, 0), (0, 1), (6, 6)]


# The choice without gold links


def test_words_without_a_subword_have_no_link():
    """Sentencepiece takes a zero-width space as a space."""
    translator = translator_of(build(SETTINGS.model))
    nothing, dog = ("\u200b",), ("dog",)
    pairs = [TextPair("\u200b", "dog", nothing, dog), TextPair("dog", "\u200b", dog, nothing)]
    assert TOKENIZER.encode(["\u200b"]) == [[]]
    assert [linked for _, linked in align(translator, pairs, Head(0, 0, 0))] == [frozenset()] * 2


def shuffled(count: int) -> list[Pair]:
    """Return pairs of a few words each, in different orders."""
    random = np.random.default_rng(0)
    english = ("red", "car", "waits", "now", "dog", "house")
    french = ("rouge", "auto", "attend", "maintenant", "chien", "maison")
    pairs = []
    for _ in range(count):
        chosen = random.permutation(6)[:4].tolist()
        order = random.permutation(4).tolist()
        source = tuple(english[i] for i in chosen)
        target = tuple(french[chosen[i]] for i in order)
        gold = frozenset((s, t) for t, s in enumerate(order))
        pairs.append(Pair(" ".join(source), " ".join(target), source, target, gold))
    return list({pair.source: pair for pair in pairs}.values())


@pytest.mark.parametrize("head", [Head(0, 0, 0), Head(2, 0, 0), Head(1, 0, 1)], ids=str)
def test_correct_links_have_the_highest_mutual_information(head):
    pairs = shuffled(80)
    assert len(pairs) >= MIN_SENTENCES
    translator = planted(head, pairs, layers=3, heads=1)
    ticks = []
    found = most_informative(translator, pairs, 200, tick=lambda: ticks.append(1))
    assert (found.layer, found.head) == (head.layer, None) and len(ticks) == len(pairs)
    rates = {which: tally.error_rate for which, tally in tallies(translator, pairs).items()}
    # One step early may work for words of several subwords: only their first is missing then.
    assert rates[found] <= rates[Head(head.layer, None, head.shift)] == 0
    assert min(rates[which] for which in rates if which.layer not in (head.layer, None)) > 0.4


def test_few_sentences_give_the_default_head():
    pairs = shuffled(80)[: MIN_SENTENCES - 1]
    translator = planted(Head(1, 0, 1), pairs, layers=3, heads=1)
    assert most_informative(translator, pairs) == Head.parse("all:share")
