"""Nothing is left on another device: a stand-in that refuses to mix, meta, and fake tensors.

The stand-in computes on the CPU, so every result is compared with the CPU's. torch attends by its
plain kernel there and by a fused one on the CPU: results agree up to rounding.

translators                     forward, backward, one update, greedy and beam search, all pairs of
                                choices of all seams
                                no tensor made on the CPU, no wait, in forward and backward: all
                                positions × norms × forms of attention, on the stand-in and on meta
other kinds                     the same, every position scheme
runs                            train, save, resume, and resume on the other device
pipelines                       texts, traces, saliency, forced attention
fake tensors                    forward and steps of a search, every position scheme
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from equivalence.variants import (
    DECODERS,
    KINDS,
    PAIRS,
    POSITIONS,
    SEAMS,
    Case,
    batch,
    cases,
    randomised,
    toy_settings,
)
from glassformer.data.batch import Batch
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.decoder import Decoder
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.decode.torch_decoder import _top as top_places
from glassformer.evaluate.failures import attention_use
from glassformer.inspect.links import TextPair
from glassformer.inspect.masking import without_head
from glassformer.inspect.trace import trace_of
from glassformer.inspect.word_attention import split_words, word_attentions
from glassformer.lab.gates import diversity, importance, prune
from glassformer.lab.learning import Plan, Task, gradient_norms, loss, small_model, train
from glassformer.model import embedding, positions
from glassformer.model.build import build
from glassformer.model.positions import NoPositions, longest_float, sinusoids
from glassformer.pipeline import load_classifier, load_translator
from glassformer.train.distributed import World
from glassformer.train.optimizer import build_optimizers
from glassformer.train.step import Objective, train_step
from standin import NAME as STAND_IN
from standin import DeviceMixError, as_on_a_gpu, standing_in, watched
from train.runs import assert_same_bits, latest, tiny, trained

pytestmark = pytest.mark.usefixtures("unchecked")

NEAR = {"rtol": 1e-4, "atol": 1e-5}
WAYS = [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}]
SCHEMES: list[Case] = [{"positions": scheme} for scheme in POSITIONS]
# Every norm with every scheme of positions and every form of attention.
TRIPLES = cases({n: SEAMS[n] for n in ("positions", "norm", "attention", "n_kv_heads")})
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
SMALL = {"max_positions": 16, "decoder_layers": 1, **DROPOUT}
BY_MASK = {"index", "index_put"}  # the loss takes the positions that have a label
SELECTIONS = {kind: PAIRS if kind == "translator" else SCHEMES for kind in KINDS}


def twins(kind: str, case: Case, device: torch.device) -> tuple[Any, Any]:
    """One model on the CPU, the same on the device, with a learned output of its own."""
    settings = toy_settings(kind=kind, tie_target_output=False, max_positions=16, **case)
    model = randomised(build(settings))
    moved = build(settings).to(device)
    moved.load_state_dict(model.state_dict())
    return model, moved


def example(kind: str, model: Any) -> Batch:
    """A batch of this kind with labels for each of its answers."""
    inputs = batch(kind)
    answers = model(*inputs).detach()
    return Batch(inputs, torch.randint(0, answers.size(-1), answers.shape[:-1]))


def updated(model: nn.Module, one: Batch) -> tuple[float, float]:
    optimizers = build_optimizers(model, "muon", 0.01, 0.02, 0.01, (0.9, 0.98))
    update = train_step(Objective(model, 0.1), optimizers, [one], [1], 1.0, 1.0)
    return update.loss, update.gradient_norm


def on_cpu(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def answers(decoder: Decoder, options: dict[str, Any]) -> tuple[list[list[int]], list[float]]:
    sources = [[5, 6, EOS], [7, EOS], [4, 4, 8, 9, EOS]] if decoder.reads_source else None
    begin = None if sources else [[5], [6, 7], []]
    how = SearchOptions(max_length=4, **options)
    found = search(decoder, sources, BOS, EOS, how, begin)
    each = [one for some in found for one in some]
    return [one.ids for one in each], [one.score for one in each]


@pytest.mark.parametrize("kind", KINDS)
def test_every_variant_computes_trains_and_searches_on_its_device(kind: str) -> None:
    with standing_in() as device:
        for case in SELECTIONS[kind]:
            model, moved = twins(kind, case, device)
            if kind == "embedder":  # imported, never trained
                (ids,) = batch(kind)
                assert_close(moved(ids.to(device)).cpu(), model(ids), **NEAR)
                continue
            one = example(kind, model)
            if kind in DECODERS:
                for way in WAYS:
                    ids, scores = answers(TorchDecoder(moved), way)
                    assert (ids, pytest.approx(scores)) == answers(TorchDecoder(model), way)
            there = one.to(device)
            assert_close(moved.train()(*there.inputs).cpu(), model.train()(*one.inputs), **NEAR)
            assert_close(updated(moved, there), updated(model, one), **NEAR)
            assert_close(on_cpu(moved), on_cpu(model), **NEAR)


@pytest.fixture
def like_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave indices unchecked, as on CUDA, whose lookup fails by itself."""
    for module in (embedding, positions):
        monkeypatch.setattr(module, "checks_indices", lambda device: False)


@pytest.mark.usefixtures("like_cuda")
def test_training_makes_no_tensor_on_the_cpu_and_waits_for_the_loss_only() -> None:
    one = batch("translator")
    with standing_in() as device:
        there = Batch(one, one[1]).to(device)
        for case in TRIPLES:
            model = build(toy_settings(**case, **SMALL)).to(device)
            with watched() as seen:
                Objective(model, 0.1)(there.labels, *there.inputs).backward()
                for optimizer in build_optimizers(model, "muon", 0.01, 0.02, 0.01, (0.9, 0.98)):
                    optimizer.step()
            assert not seen.on_cpu, case
            assert seen.waits.keys() <= BY_MASK, case
            assert {p.device for p in model.parameters()} == {device}, case


def test_on_the_meta_device_forward_and_backward_stay_on_it() -> None:
    meta = torch.device("meta")
    inputs = [ids.to(meta) for ids in batch("translator")]
    for case in TRIPLES[:: len(SEAMS["n_kv_heads"])]:  # torch's rules in Python: slow
        with meta:
            model: Any = build(toy_settings(**case, **SMALL))
        with watched() as seen:
            model(*inputs).sum().backward()
        assert not seen.on_cpu and not seen.waits, case
        assert {p.grad.device for p in model.parameters()} == {meta}, case


# The check itself


class Forgetful(NoPositions):
    """A position scheme that makes its numbers on the CPU, as one easily does by mistake."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sinusoids(torch.arange(x.size(1)), x.size(2)).to(x.dtype)


def test_a_module_that_forgets_the_device_is_caught() -> None:
    model: Any = build(toy_settings(positions="none"))
    model.encoder.positions = Forgetful()
    ids = batch("translator")
    model(*ids)  # a CPU would not refuse it
    with standing_in() as device:
        model.to(device)
        with pytest.raises(DeviceMixError, match="of the device and of the CPU"):
            model(*[x.to(device) for x in ids])
        with pytest.raises(DeviceMixError):
            model(*ids)  # a batch that was not moved


def test_a_tensor_made_on_the_cpu_and_a_wait_are_seen() -> None:
    with standing_in() as device:
        x = torch.ones(3, device=device)
        with watched() as seen:
            x + torch.arange(3).to(device)
        assert seen.on_cpu == {"arange": 1} and not seen.waits
        with watched() as seen:
            x[x > 0], float(x.sum()), x.cpu()
        assert seen.waits == {"index": 1, "_local_scalar_dense": 1, "_to_copy": 1}
        build(toy_settings()).to(device)
        with watched() as seen:
            build(toy_settings()).to(device)(*[ids.to(device) for ids in batch("translator")])
        assert seen.waits["_local_scalar_dense"], "ids are checked where the device would not"


def test_without_float64_as_on_mps_every_position_scheme_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert longest_float(torch.device("mps")) is torch.float32
    assert longest_float(torch.device("cuda")) is torch.float64
    with standing_in(torch.float64) as device:
        with pytest.raises(TypeError, match=r"the device has no torch\.float64"):
            sinusoids(torch.arange(3, device=device), 4)
        monkeypatch.setattr(positions, "longest_float", lambda device: torch.float32)
        for scheme in POSITIONS:
            model, moved = twins("translator", {"positions": scheme}, device)
            one = example("translator", model)
            assert_close(updated(moved, one.to(device)), updated(model, one), **NEAR)
            assert answers(TorchDecoder(moved), WAYS[1])[0]


# Fake tensors


@pytest.fixture
def fake_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Tensors that have a device and no data: torch's own rules say which may mix.

    They are of the stand-in: a build without CUDA cannot slice fake tensors of CUDA. As a compiler
    does, the model then leaves out checks of values; no two scores are equal.
    """
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda x: False)
    with as_on_a_gpu(), FakeTensorMode():
        yield torch.device(STAND_IN, 0)


@pytest.mark.parametrize("scheme", POSITIONS)
def test_fake_tensors_pass_through_forward_and_search(
    scheme: str, fake_device: torch.device
) -> None:
    model: Any = build(toy_settings(positions=scheme, max_positions=16))
    for module in model.modules():  # fake ones cannot be moved: new ones in their place
        for name, p in list(module.named_parameters(recurse=False)):
            there = torch.empty(p.shape, device=fake_device)
            setattr(module, name, nn.Parameter(there, requires_grad=False))
    source, target = torch.ones(3, 5, dtype=torch.long), torch.ones(3, 4, dtype=torch.long)
    assert model(source.to(fake_device), target.to(fake_device)).device == fake_device
    with pytest.raises(RuntimeError, match=r"different devices|same device"):
        model(source, target)
    for width in (1, 3):
        decoding = TorchDecoder(model).start([[5, EOS], [6, 7, EOS], [EOS]], 3, width, 4)
        scores = decoding.prefill(np.full((3, 1), BOS))
        for parents in (None, np.zeros((3, width), np.int64)):
            values, ids = top_places(scores.logits, 2)
            assert values.device == ids.device == fake_device
            scores = decoding.step(np.full((3, width), 5), parents)
        decoding.keep(np.array([0, 2]))
        assert decoding.step(np.full((2, width), 5)).logits.device == fake_device


# Runs

TRAINED: dict[str, dict[str, Any]] = {
    "muon, averaged": {
        "train": {"optimizer": "muon", "ema": 0.9, "accumulate": 2},
        "model": {"dropout": 0.0},
    },
    "adamw, recomputed": {
        "train": {"attention_entropy": True},
        "model": {"activation_checkpointing": True, "positions": "rope", "dropout": 0.0},
    },
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_is_trained_saved_and_resumed_on_a_device_as_on_the_cpu(
    tmp_path: Path, name: str
) -> None:
    data = tiny(**TRAINED[name])
    trained(data, tmp_path / "cpu")
    trained(data, tmp_path / "from-cpu", stop=3)
    with standing_in() as device:
        there = World(device=device)
        run, _ = trained(data, tmp_path / "whole", world=there)
        trained(data, tmp_path / "parts", stop=3, world=there)
        trained(data, tmp_path / "parts", resume=True, world=there)
        trained(data, tmp_path / "from-cpu", resume=True, world=there)
        assert {p.device for p in run.model.parameters()} == {device}
        states = [s for optimizer in run.optimizers for s in optimizer.state.values()]
        assert {x.device for state in states for x in state.values()} == {device}
    assert_same_bits(tmp_path / "whole", tmp_path / "parts")
    for folder in ("whole", "from-cpu"):
        assert_close(latest(tmp_path / folder).weights, latest(tmp_path / "cpu").weights, **NEAR)


def test_a_model_of_the_lab_learns_and_is_pruned_where_it_is() -> None:
    task = Task("copy", kind="translator", symbols=4, lengths=(2, 4))
    plan = Plan(steps=2, batch=4, validate_every=1)
    with standing_in() as device:
        model = small_model(task, d_model=8, d_ff=8, encoder_layers=1, decoder_layers=1)
        twin = deepcopy(model)
        model.to(device)
        held_out = task.held_out(4)
        runs = [train(one, task, plan, 0, held_out) for one in (twin, model)]
        found = [next(iter(prune(one, held_out))) for one in (twin, model)]
        worth = [importance(m, held_out, g) for m, g in zip((twin, model), found, strict=True)]
        assert diversity(model, held_out) == pytest.approx(diversity(twin, held_out), rel=1e-3)
        assert loss(model, held_out) == pytest.approx(loss(twin, held_out), rel=1e-4)
        assert gradient_norms(model, held_out).keys() == {"encoder", "decoder"}
    assert runs[1].losses == pytest.approx(runs[0].losses, rel=1e-4)
    assert worth[1] == pytest.approx(worth[0], rel=1e-2, abs=1e-5)


# Pipelines

ENGLISH, FRENCH = "A dog runs in the snow.", "Un chien court dans la neige."


def test_texts_are_translated_and_traced_on_a_device_as_on_the_cpu() -> None:
    here, there = (load_translator("captions-en-fr", engine="torch") for _ in range(2))
    with standing_in() as device:
        there.model.to(device)
        assert there.translate(ENGLISH, 2) == here.translate(ENGLISH, 2)
        assert there.inputs(ENGLISH, FRENCH)[0].device == device
        traces = [trace_of(one, ENGLISH, FRENCH) for one in (here, there)]
        pair = TextPair(ENGLISH, FRENCH, split_words(ENGLISH), split_words(FRENCH))
        words = [next(word_attentions(one, [pair])) for one in (here, there)]
        uses = [attention_use(one, ENGLISH, FRENCH) for one in (here, there)]
        with without_head(there.model, "cross", 0, 0):
            there.translate(ENGLISH, 1)
    assert_close(traces[1].attention, traces[0].attention, **NEAR)
    assert_close(traces[1].saliency, traces[0].saliency, rtol=1e-3, atol=1e-4)
    assert_close(words[1], words[0], **NEAR)
    assert uses[0] is not None and uses[1] is not None
    assert uses[1].end_share == pytest.approx(uses[0].end_share, rel=1e-3)


def test_a_text_is_classified_and_traced_on_a_device_as_on_the_cpu() -> None:
    here, there = (load_classifier("sentiment", engine="torch") for _ in range(2))
    text = "A dull film."
    with standing_in() as device:
        there.model.to(device)
        answers = [one.classify(text).probabilities for one in (here, there)]
        traces = [trace_of(one, text) for one in (here, there)]
    assert answers[1] == pytest.approx(answers[0], rel=1e-4)
    assert_close(traces[1].attention, traces[0].attention, **NEAR)
    assert_close(traces[1].saliency, traces[0].saliency, rtol=1e-3, atol=1e-4)
