"""The torch decoder: every hypothesis gets the scores that the whole model gives it alone."""

import numpy as np
import pytest
import torch

from decode.oracles import sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder, TorchScores
from glassformer.errors import InputError
from glassformer.model.attention import record_attention
from glassformer.model.masks import causal_mask
from glassformer.model.transformer import LanguageModel

B, W, V, STEPS = 3, 4, 12, 5
KINDS = ["translator", "language-model"]
POSITIONS = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@torch.inference_mode()
def whole(model, questions, ids):
    """(B, V): log-probabilities of the whole model after whole prefixes."""
    target, mask = torch.from_numpy(ids), causal_mask(ids.shape[1])
    if isinstance(model, LanguageModel):
        logits = model(target, mask)
    else:
        logits = model(pad(questions), target, target_mask=mask)
    return logits[:, -1].log_softmax(-1).numpy()


def start(model, questions, width=1, length=STEPS):
    given = None if isinstance(model, LanguageModel) else questions
    return TorchDecoder(model).start(given, len(questions), width, length)


def integers(*shape, low=0, high=V):
    return torch.randint(low, high, shape).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_prefill_gives_the_scores_of_every_position(kind):
    model, questions, ids = toy(kind=kind), sources(4, 2, 6), integers(B, STEPS, low=4)
    rows = start(model, questions).prefill(ids).rows()
    assert rows.shape == (B, STEPS, V) and rows.dtype == np.float32
    for t in range(STEPS):
        close(rows[:, t], whole(model, questions, ids[:, : t + 1]))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    ("kind", "width", "first"),
    [("translator", W, 1), ("translator", 1, 3), ("language-model", W, 3)],
    ids=str,
)
def test_every_hypothesis_attends_to_its_own_ancestors_only(kind, width, first, positions):
    """Parents drawn at random: some have several children, some have none."""
    changes = {"kind": kind, "positions": positions, "n_kv_heads": 2, "decoder_layers": 2}
    model, questions = toy(**changes), sources(4, 2, 6)
    decoding = start(model, questions, width, first + STEPS)
    ids = integers(B, 1, first)
    decoding.prefill(ids[:, 0])
    for _ in range(STEPS):
        parents = integers(B, width, high=ids.shape[1])
        tokens = integers(B, width)  # padding is a token like any other
        history = np.take_along_axis(ids, parents[..., None], 1)
        ids = np.concatenate((history, tokens[..., None]), -1)
        rows = decoding.step(tokens, parents).rows()
        for w in range(width):
            close(rows[:, w], whole(model, questions, ids[:, w]))


def test_without_parents_each_hypothesis_continues_itself():
    model, questions = toy(), sources(3, 5)
    decoding, ids = start(model, questions, W), np.full((2, W, 1), BOS)
    decoding.prefill(ids[:, 0])
    for _ in range(3):
        tokens = integers(2, W, low=4)
        ids = np.concatenate((ids, tokens[..., None]), -1)
        rows = decoding.step(tokens).rows()
    for w in range(W):
        close(rows[:, w], whole(model, questions, ids[:, w]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [[0, 2], [1], [2, 0]], ids=str)
def test_sentences_that_leave_change_nothing_for_the_others(kind, kept):
    model, questions, ids = toy(kind=kind), sources(4, 2, 6), integers(B, W, 4, low=4)
    everyone, some = (start(model, questions, W) for _ in range(2))
    for decoding in (everyone, some):
        decoding.prefill(np.full((B, 1), BOS))
        decoding.step(ids[..., 0], np.zeros((B, W), np.int64))
    parents = integers(B, W, high=W)
    some.keep(np.array(kept))
    for step in (1, 2):
        expected = everyone.step(ids[..., step], parents).rows()[kept]
        close(some.step(ids[kept, :, step], parents[kept]).rows(), expected)


def test_the_source_is_encoded_once_and_its_keys_are_shared_by_the_hypotheses():
    model, encoded, keys = toy(decoder_layers=2), [], []
    model.encoder.register_forward_hook(lambda _, args, __: encoded.append(len(args[0])))
    for layer in model.decoder.layers:
        project = layer.cross_attention.kv
        project.register_forward_hook(lambda _, args, __: keys.append(len(args[0])))
    decoding = start(model, sources(4, 2, 6), W)
    decoding.prefill(np.full((B, 1), BOS))
    for _ in range(3):
        decoding.step(integers(B, W, low=4), integers(B, W, high=W))
    assert encoded == [B] and keys == [B] * len(model.decoder.layers)


def test_reordering_a_beam_copies_no_keys_or_values():
    decoding = start(toy(), sources(4, 2), W)
    decoding.prefill(np.full((2, 1), BOS))
    cache = decoding.cache.layers[0].self_attention
    address = cache.k.data_ptr()
    for _ in range(3):
        decoding.step(integers(2, W, low=4), integers(2, W, high=W))
        assert cache.k.data_ptr() == address


@pytest.mark.parametrize("width", [1, W])
@pytest.mark.parametrize("first", [1, 3])
def test_the_cache_holds_the_greatest_length(width, first):
    decoding = start(toy(), sources(4, 2), width, length=3)
    decoding.prefill(np.full((2, first), BOS))
    for _ in range(3 - first):
        decoding.step(integers(2, width, low=4))


def test_a_step_of_another_width_is_refused():
    decoding = start(toy(), sources(4), W)
    decoding.prefill(np.full((1, 1), BOS))
    with pytest.raises(InputError, match="A step of 3 hypotheses") as caught:
        decoding.step(integers(1, 3))
    assert f"width {W}" in caught.value.why


def test_scores_are_log_probabilities_whatever_the_logits_sum_to():
    logits = torch.randn(1, 2, V, dtype=torch.double) + 3
    scores = TorchScores(logits)
    close(np.exp(scores.rows()).sum(-1), 1)
    values, ids = scores.top(3, [0, 5])
    rows = scores.rows()
    rows[..., [0, 5]] = -np.inf
    assert np.array_equal(values, np.take_along_axis(rows, ids, -1))
    assert np.array_equal(ids, np.argsort(-rows, -1)[..., :3])


def test_hooks_and_recorded_attention_see_every_step():
    model, logits = toy(), []
    model.output.register_forward_hook(lambda *args: logits.append(args[2]))
    with record_attention(model) as maps:
        search(TorchDecoder(model), sources(3, 5), BOS, V + 5, SearchOptions(2, max_length=4))
    assert len(logits) == 4 and all(x.is_inference() for x in logits)
    assert [len(x) for x in maps["decoder.layers.0.cross_attention"]] == [2] * 4


def test_decoding_is_without_dropout():
    model, questions, ids = toy(dropout=0.5).train(), sources(4, 2, 6), integers(B, STEPS, low=4)
    once, again = (start(model, questions).prefill(ids).rows() for _ in range(2))
    assert np.array_equal(once, again) and not model.training


def test_the_decoder_has_the_properties_of_the_model():
    decoder = TorchDecoder(toy(positions="learned", max_positions=9))
    assert (decoder.vocab_size, decoder.pad_id, decoder.reads_source) == (V, 0, True)
    assert decoder.max_target == 9 and TorchDecoder(toy()).max_target is None
    assert not TorchDecoder(toy(kind="language-model")).reads_source
