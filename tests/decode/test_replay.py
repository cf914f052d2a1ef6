"""Recordings: what is played back is what the model does, whatever batch it was recorded with."""

import warnings
from copy import copy, deepcopy

import pytest
import torch

from decode.oracles import assert_same, sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode import replay
from glassformer.decode.packed import n_bytes, pack
from glassformer.decode.replay import record, recordings
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.session import Session
from glassformer.errors import InputError
from glassformer.model import attention
from glassformer.model.attention import MultiHeadAttention, record_attention
from glassformer.model.transformer import LanguageModel
from glassformer.quantize import is_available, quantize

POSITIONS = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]
LAYOUTS = {"as it was built": lambda model: model, "packed": pack} | (
    {"int8": quantize} if is_available() else {}
)
V, ROOM = 24, 14


@pytest.fixture(autouse=True)
def _either_kernel(monkeypatch):
    monkeypatch.setattr(attention, "MANY_HEADS", 12)  # three sentences


@pytest.fixture(autouse=True)
def traces(monkeypatch):
    """What was recorded."""
    found, trace = [], torch.jit.trace

    def remembered(module, *args, **kwargs):
        found.append(module)
        return trace(module, *args, **kwargs)

    monkeypatch.setattr(torch.jit, "trace", remembered)
    return found


def told(model, source, width):
    """Everything a session hears, through reordered beams, leaving sentences and tidied slots."""
    draw = torch.Generator().manual_seed(0)
    batch = len(source)
    has_source = not isinstance(model, LanguageModel)
    session = Session([model], source if has_source else None, batch, ROOM, width)
    said = [session.prefill(torch.full((batch, 1), BOS))]
    for step in range(ROOM - 2):
        if step == 5 and batch > 1:
            batch -= 1
            session.keep(torch.arange(batch))
        ids = torch.randint(EOS + 1, V, (batch, width), generator=draw)
        parents = torch.randint(width, (batch, width), generator=draw) if step else None
        said.append(session.step(ids, parents))
    return said


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", ["translator", "language-model"])
@torch.inference_mode()
def test_every_batch_is_told_what_it_would_be_without(kind, positions, width):
    model = toy(V, kind=kind, positions=positions, decoder_layers=2)
    batches = [pad(sources(*lengths, vocab_size=V)) for lengths in ((4, 2, 6), (7,), (5, 5, 5, 5))]
    expected = [told(model, source, width) for source in batches]
    record(model, often=0)
    for source, plain in zip(batches, expected, strict=True):
        for ours, theirs in zip(told(model, source, width), plain, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 2, "residual": "post-norm"}], ids=str)
@torch.inference_mode()
def test_the_layout_of_the_weights_makes_no_difference_to_it(layout, changes, monkeypatch):
    monkeypatch.setattr("glassformer.decode.packed.SMALL", 0)
    model = LAYOUTS[layout](toy(V, **changes))
    source = pad(sources(4, 7, 1, vocab_size=V))
    options = SearchOptions(beam_size=3, n_best=2, max_length=12)
    expected = search(model, source, BOS, EOS, options)
    record(model, often=5)  # in the midst of the sentences
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert_same(search(model, source, BOS, EOS, options), expected)


@torch.inference_mode()
def test_a_row_alone_is_recorded_apart_from_rows_in_company(monkeypatch, traces):
    monkeypatch.setattr("glassformer.decode.packed.SMALL", 0)
    monkeypatch.setattr("glassformer.decode.packed._is_streamed", lambda model: True)
    model = pack(toy(V))
    batches = [pad(sources(*lengths, vocab_size=V)) for lengths in ((5,), (5, 5), (0,), (0, 0))]
    expected = [told(model, source, 1) for source in batches]
    record(model, often=0)
    for source, plain in zip(batches, expected, strict=True):
        for ours, theirs in zip(told(model, source, 1), plain, strict=True):
            assert torch.equal(ours, theirs)
    assert len(traces) == 2 + 3  # steps, and sources of 5, 0 and twice 0 tokens


@torch.inference_mode()
def test_nothing_is_recorded_before_it_pays_and_nothing_twice(traces):
    model, one = toy(V), pad(sources(5, vocab_size=V))
    record(model, often=3)
    session = Session([model], one, 1, 9)
    ids = torch.full((1, 1), BOS)
    session.prefill(ids)
    for _ in range(2):
        session.step(ids)
    assert not traces
    for _ in range(4):
        session.step(ids)
    assert len(traces) == 1
    for _ in range(5):
        Session([model], one, 1, 9).prefill(ids)
    assert len(traces) == 2 and traces[1] is model.encoder


@torch.inference_mode()
def test_what_comes_once_before_a_beam_is_not_recorded(traces):
    model, source = toy(V), pad(sources(5, 5, vocab_size=V))
    expected = told(model, source, 4)
    record(model, often=0)
    assert all(map(torch.equal, told(model, source, 4), expected))
    assert len(traces) == 2 and traces[0] is model.encoder  # and the beam's steps


@torch.inference_mode()
@torch.inference_mode()
def test_a_long_reading_is_not_recorded_and_its_steps_are(traces, monkeypatch):
    model = toy(V)
    source = pad(sources(4, 5, 6, vocab_size=V))
    expected = told(model, source, 2)
    monkeypatch.setattr(replay, "MUCH", 18 * n_bytes(model.encoder) - 1)
    record(model, often=0)
    for ours, theirs in zip(told(model, source, 2), expected, strict=True):
        assert torch.equal(ours, theirs)
    assert traces and model.encoder not in traces
    told(model, source[:2], 2)
    assert model.encoder in traces


@pytest.mark.parametrize("large", [True, False])
@torch.inference_mode()
def test_memory_of_a_large_model_is_put_in_order_when_it_is_recorded(monkeypatch, large):
    times = []
    monkeypatch.setattr(replay, "use_large_pages", lambda: times.append(1))
    model = toy(V)
    monkeypatch.setattr(replay, "LARGE", n_bytes(model) - large)
    record(model, often=0)
    for _ in range(2):
        told(model, pad(sources(4, 4, vocab_size=V)), 1)
    assert bool(times) == large and len(times) <= 3  # reading, steps, and steps of one sentence


def test_torch_plays_what_others_record_as_it_did_before():
    before = torch._C._jit_set_profiling_executor(True)
    try:
        model = toy(V)
        record(model, often=0)
        search(model, pad(sources(5, vocab_size=V)), BOS, EOS, SearchOptions(max_length=3))
        assert torch._C._jit_set_profiling_executor(True)
    finally:
        torch._C._jit_set_profiling_executor(before)


def test_ids_that_the_model_does_not_know_are_refused_all_the_same():
    model, one = toy(V), pad(sources(5, vocab_size=V))
    record(model, often=0)
    for _ in range(2):
        search(model, one, BOS, EOS, SearchOptions(max_length=3))
    with pytest.raises(InputError, match=f"Token id {V} is outside"):
        search(model, one.clamp(min=V), BOS, EOS, SearchOptions(max_length=3))


@torch.inference_mode()
def test_a_model_that_is_looked_into_works_in_the_open(traces):
    model, source = toy(V), pad(sources(3, vocab_size=V))
    record(model, often=0)
    with record_attention(model) as maps:
        Session([model], source, 1, 4).prefill(torch.full((1, 1), BOS))
    assert all(maps.values()) and recordings(model)
    seen = []
    part = next(m for m in model.decoder.modules() if isinstance(m, MultiHeadAttention))
    with part.register_forward_hook(lambda *_: seen.append(1)):
        Session([model], source, 1, 4).prefill(torch.full((1, 1), BOS))
    assert seen and not traces
    Session([model], source, 1, 4).prefill(torch.full((1, 1), BOS))
    assert len(traces) == 2


@torch.inference_mode()
def test_a_copy_has_recordings_of_its_own_or_none():
    model = toy(V)
    assert recordings(model) is None
    record(model, often=0)
    assert recordings(copy(model)) is None
    other = deepcopy(model)
    ours = recordings(other)
    assert ours is not None and ours is not recordings(model) and ours.model is other
