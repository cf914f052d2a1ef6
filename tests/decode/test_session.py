"""A session: what each hypothesis is told is what the whole model says to it alone."""

import pytest
import torch
from torch.testing import assert_close

from decode.oracles import sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, PAD
from glassformer.decode import session as module
from glassformer.decode.session import Session, output_limits
from glassformer.model.masks import causal_mask
from glassformer.model.transformer import LanguageModel

B, W, V, STEPS = 3, 4, 12, 5
CLOSE = {"rtol": 0, "atol": 1e-5}
KINDS = ["translator", "language-model"]
POSITIONS = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]

pytestmark = pytest.mark.usefixtures("_no_gradients")


@pytest.fixture
def _no_gradients():
    with torch.inference_mode():
        yield


def told(model, source, said):
    """(B, V): the whole model on the whole prefixes."""
    mask = causal_mask(said.size(1))
    if isinstance(model, LanguageModel):
        return model(said, mask)[:, -1]
    return model(source, said, target_mask=mask)[:, -1]


def start(model, source, width=1, length=STEPS):
    has_source = not isinstance(model, LanguageModel)
    return Session([model], source if has_source else None, len(source), length, width)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_at_once_is_what_the_model_says(kind):
    model, source, said = toy(kind=kind), pad(sources(4, 2, 6)), torch.randint(4, V, (B, STEPS))
    logits = start(model, source).prefill(said)
    assert logits.shape == (B, STEPS, V)
    for t in range(STEPS):
        assert_close(logits[:, t], told(model, source, said[:, : t + 1]), **CLOSE)


@pytest.mark.parametrize(
    ("tidy", "usual"),
    [(1, 24), (2, 24), (8, 24), (2, 1), (8, 2)],
    ids=str,
)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    ("kind", "width", "first"),
    [("translator", W, 1), ("translator", 1, 3), ("language-model", W, 3)],
    ids=str,
)
def test_every_hypothesis_sees_its_own_past_and_nobody_elses(
    kind, width, first, positions, tidy, usual, monkeypatch
):
    """Parents drawn at random: some have several children, some have none."""
    monkeypatch.setattr(module, "TIDY", tidy)
    monkeypatch.setattr(module, "USUAL", usual)
    changes = {"kind": kind, "positions": positions, "n_kv_heads": 2, "decoder_layers": 2}
    model, source = toy(**changes), pad(sources(4, 2, 6))
    session = start(model, source, width, first + STEPS)
    said = torch.randint(V, (B, 1, first))
    session.prefill(said[:, 0])
    for _ in range(STEPS):
        parents = torch.randint(said.size(1), (B, width))
        tokens = torch.randint(V, (B, width))  # padding is a token like any other
        history = said.gather(1, parents[..., None].expand(-1, -1, said.size(-1)))
        said = torch.cat((history, tokens[..., None]), -1)
        logits = session.step(tokens, parents)
        for w in range(width):
            assert_close(logits[:, w], told(model, source, said[:, w]), **CLOSE)


def test_there_is_room_for_what_is_said_and_not_for_all_that_could_be(monkeypatch):
    monkeypatch.setattr(module, "USUAL", 3)
    model, source = toy(), pad(sources(3, 5))
    session, rooms = start(model, source, length=20), []
    session.prefill(torch.full((2, 1), BOS))
    for _ in range(19):
        rooms.append(session.voices[0].cache.capacity)
        session.step(torch.full((2, 1), 5))
    assert rooms == [4] * 4 + [8] * 4 + [16] * 8 + [21] * 3


def test_without_parents_each_goes_on_from_itself():
    model, source = toy(), pad(sources(3, 5))
    session, said = start(model, source, W), torch.full((2, W, 1), BOS)
    session.prefill(said[:, 0])
    for _ in range(3):
        tokens = torch.randint(4, V, (2, W))
        said = torch.cat((said, tokens[..., None]), -1)
        logits = session.step(tokens)
    for w in range(W):
        assert_close(logits[:, w], told(model, source, said[:, w]), **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("going", [[0, 2], [1], [2, 0]], ids=str)
def test_sentences_that_leave_change_nothing_for_those_that_stay(kind, going):
    model, source, said = toy(kind=kind), pad(sources(4, 2, 6)), torch.randint(4, V, (B, W, 4))
    all_of_them, some = (start(model, source, W) for _ in range(2))
    for session in (all_of_them, some):
        session.prefill(torch.full((B, 1), BOS))
        session.step(said[..., 0])
    parents = torch.randint(W, (B, W))
    some.keep(torch.tensor(going))
    for step in (1, 2):
        expected = all_of_them.step(said[..., step], parents)[going]
        assert_close(some.step(said[going, :, step], parents[going]), expected, **CLOSE)


def test_the_source_is_read_once_and_its_keys_are_shared_by_the_hypotheses():
    model, read, keys = toy(decoder_layers=2), [], []
    model.encoder.register_forward_hook(lambda _, args, __: read.append(len(args[0])))
    for layer in model.decoder.layers:
        project = layer.cross_attention.kv
        project.register_forward_hook(lambda _, args, __: keys.append(len(args[0])))
    session = start(model, pad(sources(4, 2, 6)), W)
    session.prefill(torch.full((B, 1), BOS))
    for _ in range(3):
        session.step(torch.randint(4, V, (B, W)), torch.randint(W, (B, W)))
    assert read == [B] and keys == [B] * len(model.decoder.layers)


@pytest.mark.parametrize("children_of", ["the first", "each"])
def test_slots_that_nobody_descends_from_are_left_out(children_of):
    """All from one parent: a past of one line. Each from its own: all of it is still seen."""
    length = 3 * module.TIDY
    session = start(toy(), pad(sources(4, 2)), W, length)
    session.prefill(torch.full((2, 1), BOS))
    parents = (
        torch.zeros(2, W).long() if children_of == "the first" else torch.arange(W).repeat(2, 1)
    )
    sizes = []
    for _ in range(length - 1):
        session.step(torch.randint(4, V, (2, W)), parents)
        sizes.append(session.voices[0].cache.length)
    if children_of == "each":
        assert sizes == [1 + W * (step + 1) for step in range(length - 1)]
    else:
        assert max(sizes) <= length + W * module.TIDY < 1 + W * (length - 1)
        assert sizes[2 * module.TIDY - 2] == 2 * module.TIDY - 1 + W, "one for each step, and W new"


def test_sentences_with_different_pasts_keep_as_many_slots_of_a_step_as_either_needs():
    session = start(toy(), pad(sources(4, 2)), W, 2 * module.TIDY)
    session.prefill(torch.full((2, 1), BOS))
    parents = torch.stack([torch.zeros(W).long(), torch.tensor([0, 1, 1, 0])])
    for _ in range(module.TIDY - 1):
        session.step(torch.randint(4, V, (2, W)), parents)
    # One line of descent in the first sentence, two in the second.
    assert session.voices[0].cache.length == 1 + 2 * (module.TIDY - 2) + W


def test_keys_and_values_are_not_copied_when_a_beam_is_reordered():
    session = start(toy(), pad(sources(4, 2)), W)
    session.prefill(torch.full((2, 1), BOS))
    cache = session.voices[0].cache.layers[0].self_attention
    place = cache.k.data_ptr()
    for _ in range(3):
        session.step(torch.randint(4, V, (2, W)), torch.randint(W, (2, W)))
        assert cache.k.data_ptr() == place


def test_a_source_without_padding_has_no_mask_and_one_with_padding_has():
    model = toy()
    assert start(model, pad(sources(4, 4))).voices[0].source_mask is None
    assert start(model, pad(sources(4, 3))).voices[0].source_mask is not None


@pytest.mark.parametrize("extra", [1, 4])
def test_more_padding_behind_the_sources_changes_nothing(extra):
    model, source = toy(), pad(sources(4, 4))
    padded = torch.nn.functional.pad(source, (0, extra), value=PAD)
    first = torch.full((2, 1), BOS)
    one, other = start(model, source, W), start(model, padded, W)
    assert_close(one.prefill(first), other.prefill(first), **CLOSE)
    tokens = torch.randint(4, V, (2, W))
    assert_close(one.step(tokens), other.step(tokens), **CLOSE)


@pytest.mark.parametrize("width", [1, W])
def test_an_ensemble_says_the_mean_of_the_probabilities(width):
    members, source = [toy(), toy(positions="rope"), toy(decoder_layers=2)], pad(sources(4, 2))
    together = Session(members, source, 2, STEPS, width)
    alone = [start(model, source, width) for model in members]
    first, tokens = torch.full((2, 1), BOS), torch.randint(4, V, (2, width))
    for ask in (lambda s: s.prefill(first), lambda s: s.step(tokens)):
        expected = torch.stack([ask(session).softmax(-1) for session in alone]).mean(0)
        assert_close(ask(together).exp(), expected, **CLOSE)
    together.keep(torch.tensor([1]))
    for session in alone:
        session.keep(torch.tensor([1]))
    expected = torch.stack([s.step(tokens[1:]).softmax(-1) for s in alone]).mean(0)
    assert_close(together.step(tokens[1:]).exp(), expected, **CLOSE)


@pytest.mark.parametrize("width", [1, W])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_there_is_room_for_the_greatest_length(width, first):
    session = start(toy(), pad(sources(4, 2)), width, length=3)
    session.prefill(torch.full((2, first), BOS))
    for _ in range(3 - first + 1):
        session.step(torch.randint(4, V, (2, width)))


def test_the_limit_is_the_papers_by_each_sentences_own_length():
    source = torch.tensor([[5, 6, 7, 3], [3, PAD, PAD, PAD]])
    assert output_limits(source, PAD).tolist() == [54, 51]
