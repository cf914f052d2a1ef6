"""Greedy decoding: with cache, batch and padding it says what one sentence alone is told."""

import pytest
import torch
from torch import nn

from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.greedy import greedy
from glassformer.decode.session import Session
from glassformer.model.build import build
from glassformer.model.masks import causal_mask

V, LIMIT = 9, 8
NEVER = -1  # an end that is never said
VARIANTS = [
    {},
    {"positions": "rope", "n_kv_heads": 1, "norm": "rms-norm"},
    {"positions": "alibi", "residual": "post-norm"},
    {"positions": "learned", "tie_source_target": False},
    {"positions": "relative-bucketed", "feed_forward": "swiglu"},
]


def model_of(**changes):
    """With weights so large that it says this and that; exact enough for equal argmaxes."""
    model = build(
        "tiny", vocab_size=V, d_model=16, n_heads=4, d_ff=16, encoder_layers=1, decoder_layers=2,
        tie_target_output=False, **changes,
    )  # fmt: skip
    for p in model.parameters():
        if p.dim() == 2:
            nn.init.normal_(p, std=0.5)
    return model.double().eval()


def sentences(count: int = 8) -> list[list[int]]:
    lengths = torch.randint(1, 9, (count,)).tolist()
    return [[*torch.randint(EOS + 1, V, (n,)).tolist(), EOS] for n in lengths]


@torch.no_grad()
def said_alone(model, sentence: list[int], limit: int = LIMIT) -> list[int]:
    """The whole model on the whole prefix, once for every token, without an end."""
    prefix = [BOS]
    while len(prefix) <= limit:
        mask = causal_mask(len(prefix))  # whatever was said is no padding
        logits = model(torch.tensor([sentence]), torch.tensor([prefix]), target_mask=mask)
        prefix.append(int(logits[0, -1].argmax()))
    return prefix[1:]


def cut(row: list[int], end: int) -> list[int]:
    return row[: row.index(end)] if end in row else row


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_batch_says_what_each_sentence_alone_is_told(changes):
    """Whichever token is taken for the end: rows leave early, late, together and never."""
    model, sources = model_of(**changes), sentences()
    alone = [said_alone(model, source) for source in sources]
    assert len({str(row) for row in alone}) > 2, "the answers depend on the questions"
    lengths = set()
    for end in range(V):
        said = greedy(model, pad(sources), BOS, end, LIMIT)
        assert said == [cut(row, end) for row in alone]
        lengths |= set(map(len, said))
    assert {0, LIMIT} < lengths


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_limit_cuts_and_changes_nothing_before_it(limit):
    model, source = model_of(), pad(sentences())
    longer, said = (greedy(model, source, BOS, NEVER, n) for n in (LIMIT, limit))
    assert said == [row[:limit] for row in longer]


def test_without_a_limit_it_is_the_papers_and_does_not_depend_on_the_neighbours():
    sources = [[5, EOS], [4, 5, 6, 7, 8, 4, EOS]]
    endless = greedy(model_of(), pad(sources), BOS, NEVER)
    assert [len(row) for row in endless] == [len(source) + 50 for source in sources]


def test_finished_rows_leave_the_batch_and_it_ends_with_the_last(monkeypatch):
    """Row r ends after r tokens."""
    sizes = []

    def step(self, ids):
        sizes.append(len(ids))
        ends = torch.arange(4 - len(ids), 4) == len(sizes) - 1
        return torch.eye(V)[torch.where(ends, EOS, 5)]

    monkeypatch.setattr(Session, "step", step)
    said = greedy(model_of(), pad(sentences(4)), BOS, EOS, LIMIT)
    assert said == [[5] * r for r in range(4)]
    assert sizes == [4, 3, 2, 1]


def test_it_keeps_nothing_for_gradients():
    model, logits = model_of(), []
    model.output.register_forward_hook(lambda *args: logits.append(args[2]))
    greedy(model, pad(sentences(2)), BOS, EOS, 3)
    assert logits and all(x.is_inference() for x in logits)
