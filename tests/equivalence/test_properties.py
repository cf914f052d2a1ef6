"""Properties of every variant: future, padding, cache and kernel change nothing.

all seams (504 translators)     the future, padding against the sentence alone; readable
                                against fused for the 252 that do not differ by it
positions × heads × kernel      gradients to the future, what stands in the padding, the cache;
                                the seams left out work on each position by itself, so for
                                these a selection in which every two choices meet
that selection                  rows of padding, files, and kinds other than the translator
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch.testing import assert_close

from equivalence.variants import (
    ALL,
    ATTENTION,
    DECODERS,
    KINDS,
    PAD,
    PAIRS,
    TOY,
    Cached,
    Case,
    batch,
    choices,
    gradients,
    masks,
    real,
    sentences,
    toy,
    variants,
)
from glassformer.model.build import Model

EXACT = {"atol": 0.0, "rtol": 0.0}
CLOSE = {"atol": 1e-10, "rtol": 1e-10}
LENGTH = 5


def each(selection: list[Case], kinds: Iterable[str]) -> pytest.MarkDecorator:
    """The selection for the translator, which has every part, and pairs for other kinds."""
    others = [kind for kind in kinds if kind != "translator"]
    parameters = variants(selection, "translator") + variants(PAIRS, *others)
    return pytest.mark.parametrize("variant", parameters)


unchecked = pytest.mark.usefixtures("unchecked")


def full_length(kind: str, rows: int) -> tuple[Tensor, ...]:
    """A padded source, if there is one, and targets without padding."""
    source = (sentences(*range(LENGTH, LENGTH - rows, -1)),) if kind == "translator" else ()
    return (*source, sentences(*[LENGTH] * rows))


def assert_equal_alone(model: Model, ids: tuple[Tensor, ...]) -> None:
    """Every sentence of the batch has the outputs that it has without the others."""
    for row, logits in enumerate(model(*ids)):
        alone = [x[row : row + 1, : x[row].count_nonzero()] for x in ids]
        expected = model(*alone)[0]
        assert_close(logits[: len(expected)], expected, **CLOSE)


@unchecked
@each(ALL, DECODERS)
def test_changing_the_future_changes_no_earlier_output(variant: Case) -> None:
    model = toy(**variant)
    *source, target = (x[:1].expand(LENGTH, -1) for x in full_length(variant["kind"], 1))
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu()  # row t changes t and what follows
    changed = torch.where(later, target % 10 + 1, target)
    before, after = model(*source, target), model(*source, changed)
    assert_close(after[~later], before[~later], **EXACT)
    assert (after[later] != before[later]).any(-1).all()


@each(ATTENTION, DECODERS)
def test_an_output_has_a_gradient_to_the_past_and_none_to_the_future(variant: Case) -> None:
    model, embedded = toy(**variant), []
    model.decoder.embedding.register_forward_hook(lambda *call: embedded.append(call[-1]))
    logits = model(*full_length(variant["kind"], 1))
    losses = [output.square().sum() for output in logits[0]]
    per_output = [torch.autograd.grad(x, embedded[-1], retain_graph=True)[0][0] for x in losses]
    reached = (torch.stack(per_output) != 0).any(-1)
    assert torch.equal(reached, torch.ones_like(reached).tril())


@unchecked
@each(ALL, KINDS)
def test_a_padded_sentence_equals_the_sentence_alone(variant: Case) -> None:
    model, ids = toy(**variant), batch(variant["kind"])
    assert_equal_alone(model, ids)


@each(ATTENTION, KINDS)
def test_what_stands_in_the_padding_does_not_matter(variant: Case) -> None:
    model, ids = toy(**variant), batch(variant["kind"])
    held = masks(variant["kind"], ids)
    filled = [torch.where(x == PAD, torch.randint_like(x, 1, TOY.vocab_size), x) for x in ids]
    assert_close(real(model(*filled, *held), ids), real(model(*ids, *held), ids), **EXACT)
    assert_close(model(*ids, *held), model(*ids), **EXACT)


@each(ATTENTION, DECODERS)
@torch.inference_mode()
def test_decoding_with_a_cache_equals_decoding_without(variant: Case) -> None:
    model, (*source, target) = toy(**variant), full_length(variant["kind"], 2)
    expected = model(*source, target)
    for chunks in ([1, 1, 1, 1, 1], [3, 1, 1], [2, 3]):
        cached = Cached(model, source, 2, LENGTH)
        steps = [cached.step(ids) for ids in target.split(chunks, dim=1)]
        assert_close(torch.cat(steps, dim=1), expected, **CLOSE)


@each(ATTENTION, DECODERS)
@torch.inference_mode()
def test_reordering_the_cache_equals_reordering_the_batch(variant: Case) -> None:
    model, (*source, target) = toy(**variant), full_length(variant["kind"], 3)
    cached = Cached(model, source, 3, LENGTH)
    cached.step(target[:, :2])
    cached.reorder(torch.tensor([2, 0]))  # row 1 is dropped
    cached.step(target[[2, 0], 2:3])
    cached.reorder(torch.tensor([1, 0, 1]))  # what was row 0 is kept twice
    rows = [0, 2, 0]
    expected = model(*(x[rows] for x in (*source, target)))
    assert_close(cached.step(target[rows, 3:]), expected[:, 3:], **CLOSE)


@unchecked
@each([case for case in ALL if case["attention"] == "fused"], KINDS)
def test_the_readable_kernel_equals_the_fused(variant: Case) -> None:
    readable, fused = (toy(**variant | {"attention": name}) for name in ("readable", "fused"))
    fused.load_state_dict(readable.state_dict())
    ids = batch(variant["kind"])
    ids[0][0] = PAD  # a row that may attend nowhere
    outputs = [model(*ids) for model in (readable, fused)]
    assert_close(*outputs, **CLOSE)
    assert_close(gradients(readable, outputs[0]), gradients(fused, outputs[1]), **CLOSE)


@each(PAIRS, KINDS)
def test_a_row_of_nothing_but_padding_stays_finite(variant: Case) -> None:
    model, ids = toy(**variant), batch(variant["kind"])
    ids[0][0] = PAD
    output = model(*ids)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(model, output))
    assert_close(output[1:], model(*(x[1:] for x in ids)), **CLOSE)


@pytest.mark.parametrize("pooling", choices("pooling"))
def test_every_pooling_ignores_padding(pooling: str) -> None:
    model, ids = toy(kind="classifier", pooling=pooling), sentences(5, 1, 3)
    assert_equal_alone(model, (ids,))
    ids[0] = PAD
    output = model(ids)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(model, output))


@each(PAIRS, KINDS)
@pytest.mark.parametrize("tied", [True, False])
def test_saving_and_loading_gives_the_same_bits(variant: Case, tied: bool, tmp_path: Path) -> None:
    ties = {"tie_source_target": tied, "tie_target_output": tied}
    (saved, loaded), ids = (toy(**variant, **ties) for _ in range(2)), batch(variant["kind"])
    save_model(saved, str(tmp_path / "model.safetensors"))
    load_model(loaded, tmp_path / "model.safetensors")
    assert_close(loaded(*ids), saved(*ids), **EXACT)
