"""The same weights give the same text in CTranslate2, in Hugging Face's `generate` and in ours.

CTranslate2 renormalises after forbidding tokens, so with a least length its beams may rank
differently from ours. Greedy search is the same, and so is any search without such a rule.
"""

from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from equivalence.variants import label, toy_settings
from glassformer.bench.varied_outputs import vary_outputs
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.decode.search import Hypothesis, SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.interop.ctranslate2 import to_ctranslate2
from glassformer.interop.marian import to_marian
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

NAMES = list(map(str, range(20)))
LONGEST = 24
Ids = list[list[int]]

PAPER = {"residual": "post-norm"}
VARIANTS = [
    PAPER,
    {"residual": "post-norm", "tie_target_output": False, "attention_bias": True},
    {"residual": "pre-norm", "positions": "learned", "feed_forward": "gelu"},
    {"residual": "pre-norm", "positions": "rope", "n_kv_heads": 2, "feed_forward": "swiglu"},
    {"residual": "pre-norm", "positions": "relative-bucketed", "n_kv_heads": 1},
    {"residual": "post-norm", "positions": "none"},
]
each_variant = pytest.mark.parametrize("choices", VARIANTS, ids=label)
each_beam = pytest.mark.parametrize("beam", [1, 2, 4, 7])
SEEDS = range(3)


def translator(**choices: Any) -> Transformer:
    """A toy whose layers change more than freshly initialised ones."""
    sizes = {"vocab_size": len(NAMES), "d_model": 16, "d_ff": 24, "max_positions": LONGEST}
    model = build(toy_settings(**sizes, **choices)).eval()
    assert isinstance(model, Transformer)
    for parameter in (*model.encoder.layers.parameters(), *model.decoder.layers.parameters()):
        parameter.data *= 2 if parameter.dim() == 2 else 1
    return vary_outputs(model, banned=[PAD, BOS])


def questions() -> Ids:
    lengths = (7, 3, 12, 1, 5, 9, 4, 2)
    return [[*torch.randint(4, len(NAMES), (n,)).tolist(), EOS] for n in lengths]


def ours(model: Transformer, sources: Ids, beam: int, shortest: int = 0) -> list[Hypothesis]:
    options = SearchOptions(
        beam_size=beam, length_penalty=0.0, min_length=shortest, max_length=LONGEST
    )
    return [found[0] for found in search(TorchDecoder(model), sources, BOS, EOS, options)]


def ctranslate2_s(
    model: Transformer, folder: Path, sources: Ids, beam: int, shortest: int = 0
) -> tuple[Ids, list[float]]:
    """Its texts and their log-probabilities."""
    written = str(to_ctranslate2(model, folder, NAMES))
    results = ctranslate2.Translator(written, intra_threads=1).translate_batch(
        [[NAMES[i] for i in source] for source in sources],
        beam_size=beam,
        length_penalty=0,
        min_decoding_length=shortest,
        max_decoding_length=LONGEST,
        return_scores=True,
    )
    texts = [[int(name) for name in result.hypotheses[0]] for result in results]
    return texts, [result.scores[0] for result in results]


def marian_s(model: Transformer, sources: Ids, beam: int, shortest: int) -> Ids:
    ids, penalty = pad(sources), {"length_penalty": 0.0} if beam > 1 else {}
    rows = to_marian(model, max_length=LONGEST).generate(
        input_ids=ids,
        attention_mask=(ids != PAD).long(),
        num_beams=beam,
        do_sample=False,
        min_new_tokens=shortest,
        max_new_tokens=LONGEST,
        **penalty,
    )
    texts = [row[1:] for row in rows.tolist()]
    return [row[: row.index(EOS)] if EOS in row else row for row in texts]


@each_variant
@each_beam
def test_ctranslate2_gives_the_same_text_and_score(
    choices: dict[str, Any], beam: int, tmp_path: Path
) -> None:
    for seed in SEEDS:
        torch.manual_seed(seed)
        model, sources = translator(**choices), questions()
        answers = ours(model, sources, beam)
        texts, log_probabilities = ctranslate2_s(model, tmp_path, sources, beam)
        assert [answer.ids for answer in answers] == texts
        expected = pytest.approx(log_probabilities, abs=1e-4)
        assert [answer.log_probability for answer in answers] == expected


def test_ctranslate2_gives_the_same_least_length(tmp_path: Path) -> None:
    model, sources = translator(**PAPER), questions()
    texts, _ = ctranslate2_s(model, tmp_path, sources, 1, shortest=LONGEST)
    assert [answer.ids for answer in ours(model, sources, 1, LONGEST)] == texts
    assert {len(ids) for ids in texts} == {LONGEST}


@each_beam
@pytest.mark.parametrize("shortest", [0, 5, LONGEST])
def test_marian_gives_the_same_text(beam: int, shortest: int) -> None:
    model, sources = translator(**PAPER), questions()
    answers = ours(model, sources, beam, shortest)
    assert [answer.ids for answer in answers] == marian_s(model, sources, beam, shortest)


@each_variant
def test_answers_vary_with_weights_source_and_beam(choices: dict[str, Any]) -> None:
    """Equal text proves something only if the text varies."""
    greedy: Ids = []
    beam: Ids = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model, sources = translator(**choices), questions()
        for found, width in ((greedy, 1), (beam, 4)):
            found += [answer.ids for answer in ours(model, sources, width)]
    texts = len(greedy)
    assert len(set(map(tuple, greedy))) > texts / 3
    assert sum(len(set(ids)) > 1 for ids in greedy) > texts / 3
    assert sum(one != other for one, other in zip(greedy, beam, strict=True)) > texts / 3
    assert any(len(ids) < LONGEST for ids in greedy + beam)
