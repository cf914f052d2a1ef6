"""Input that compiled code could not survive is refused: it has no bounds checks."""

from typing import Any

import numpy as np
import pytest

from engine.child import answer, save
from engine.toys import VOCABULARY, answers, arrays, engine, sentences, toy
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import force_decode
from glassformer.engine.model import LONGEST, CompiledModel
from glassformer.errors import CheckpointError, InputError
from glassformer.quantize import SCALE, quantise_weights

MATRIX = "decoder.layers.0.feed_forward.expand.weight"
NORM = "encoder.layers.0.self_attention_residual.norm.gain"


def changed(name: str, change: Any, kind: str = "translator", **changes: Any) -> CompiledModel:
    """A model of which one tensor is `change(tensor)`, or is absent if that is None."""
    model = toy(kind=kind, **changes)
    weights = arrays(model)
    tensor = change(weights.pop(name))
    if tensor is not None:
        weights[name] = tensor
    return CompiledModel(model.settings, weights)


def with_value(value: float) -> Any:
    def change(tensor: Any) -> Any:
        tensor.flat[tensor.size // 2] = value
        return tensor

    return change


NAMES = [
    "encoder.embedding.weight",
    "output.weight",
    "decoder.layers.1.cross_attention.kv.weight",
    MATRIX,
    MATRIX.replace("weight", "bias"),
    NORM,
    NORM.replace("gain", "bias"),
]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_no_numbers_are_refused(name: str, value: float) -> None:
    with pytest.raises(CheckpointError, match=f"{name} holds NaN or infinity") as raised:
        changed(name, with_value(value))
    assert "earlier checkpoint" in raised.value.remedy


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_another_shape_are_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=rf"{name} is \(\d+") as raised:
        changed(name, lambda tensor: tensor[:-1])
    assert "The settings ask for" in raised.value.why


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(CheckpointError, match=f"{name} is absent"):
        changed(name, lambda tensor: None)


@pytest.mark.parametrize("int8", [None, True, False])
def test_no_weights_at_all_are_refused(int8: bool | None) -> None:
    with pytest.raises(CheckpointError, match="is absent"):
        CompiledModel(toy().settings, {}, int8=int8)


@pytest.mark.parametrize("positions", ["learned", "relative", "relative-bucketed"])
def test_positions_that_are_missing_misshapen_or_no_numbers_are_refused(positions: str) -> None:
    name = "encoder.positions.weight"
    for change, text in (
        (lambda tensor: None, "is absent"),
        (lambda tensor: tensor[:-1], r"is \(\d+"),
        (with_value(np.nan), "holds NaN"),
    ):
        with pytest.raises(CheckpointError, match=f"{name} {text}"):
            answers(changed(name, change, positions=positions), sentences(3))


@pytest.mark.parametrize(
    ("suffix", "change"),
    [
        (SCALE, lambda tensor: None),
        (SCALE, lambda tensor: tensor[:-1]),
        (SCALE, with_value(np.nan)),
        ("", lambda tensor: tensor[:, :-1]),
    ],
    ids=["absent", "short", "nan", "narrow"],
)
def test_damaged_weights_in_eight_bits_are_refused(suffix: str, change: Any) -> None:
    model = toy()
    weights = quantise_weights(arrays(model))
    tensor = change(weights.pop(MATRIX + suffix))
    if tensor is not None:
        weights[MATRIX + suffix] = tensor
    with pytest.raises(CheckpointError, match=MATRIX):
        CompiledModel(model.settings, weights)


OUTSIDE = [-1, VOCABULARY, 2**31, -(2**40), 2**62]


@pytest.mark.parametrize("token", OUTSIDE)
def test_a_source_outside_the_vocabulary_is_refused(token: int) -> None:
    model = engine(toy())
    with pytest.raises(InputError, match=f"Token id {token} is outside the vocabulary") as raised:
        answers(model, [[5, EOS], [6, token, EOS]])
    assert f"0 to {VOCABULARY - 1}" in raised.value.why


@pytest.mark.parametrize("token", OUTSIDE)
@pytest.mark.parametrize("kind", ["classifier", "tagger", "masked-language-model"])
def test_a_text_outside_the_vocabulary_is_refused(kind: str, token: int) -> None:
    model = engine(toy(kind=kind))
    for method in (model.encode, model.tag if kind != "classifier" else model.classify):
        with pytest.raises(InputError, match="outside the vocabulary"):
            method([[5, token]])


@pytest.mark.parametrize("token", OUTSIDE)
def test_prefixes_targets_and_begin_marks_outside_the_vocabulary_are_refused(token: int) -> None:
    model = engine(toy())
    with pytest.raises(InputError, match="of a prefix is outside the vocabulary"):
        answers(model, sentences(3), prefixes=[[token]])
    with pytest.raises(InputError, match="of a target is outside the vocabulary"):
        force_decode(model, sentences(3), [[5, token]], BOS)
    with pytest.raises(InputError, match="of a begin mark is outside the vocabulary"):
        force_decode(model, sentences(3), [[5]], token)
    decoding = model.start(sentences(3), 1, 1, 5)
    for call in (decoding.prefill, decoding.step):
        with pytest.raises(InputError, match="outside the vocabulary"):
            call(np.array([[token]]))


def test_a_source_has_a_vocabulary_of_its_own() -> None:
    model = engine(toy(source_vocab_size=9, tie_source_target=False))
    answers(model, [[8, EOS]])
    with pytest.raises(InputError, match="0 to 8"):
        answers(model, [[9, EOS]])


@pytest.mark.parametrize("kind", ["translator", "classifier", "tagger"])
def test_an_empty_source_is_refused(kind: str) -> None:
    model = engine(toy(kind=kind))
    with pytest.raises(InputError, match="is empty"):
        answers(model, [[5, EOS], []]) if kind == "translator" else model.encode([[5], []])


@pytest.mark.parametrize("kind", ["translator", "classifier", "tagger"])
def test_a_source_of_100_000_tokens_is_refused(kind: str) -> None:
    model, row = engine(toy(kind=kind)), [5] * 100_000
    with pytest.raises(InputError, match="100,000 tokens") as raised:
        answers(model, [row]) if kind == "translator" else model.encode([row])
    assert f"{LONGEST:,}" in raised.value.why and "shorter pieces" in raised.value.remedy


def test_an_answer_that_memory_could_not_hold_is_refused() -> None:
    with pytest.raises(InputError, match="100,000"):
        engine(toy()).start(sentences(3), 1, 1, 100_000)


def test_learned_positions_limit_sources_prefixes_targets_and_answers() -> None:
    model = engine(toy(positions="learned", max_positions=9))
    (found,) = answers(model, sentences(8), max_length=50, min_length=9)
    assert max(len(h.ids) for h in found) <= 9
    with pytest.raises(InputError, match="has 10 tokens"):
        answers(model, sentences(9))
    with pytest.raises(InputError, match="A prefix of 10 tokens"):
        answers(model, sentences(3), prefixes=[[5] * 10])
    with pytest.raises(InputError, match="A target of 10 tokens"):
        force_decode(model, sentences(3), [[5] * 10], BOS)


def test_a_beam_may_be_wider_than_the_vocabulary() -> None:
    model = engine(toy(vocab_size=5))
    source = sentences(4, size=5)
    (found,) = answers(model, source, beam_size=40, n_best=40, max_length=3)
    assert 0 < len(found) <= 40
    assert len({(*h.ids, h.complete) for h in found}) == len(found)
    (first,) = answers(model, source, beam_size=100, n_best=1, max_length=3)
    assert first[0] == found[0]


BEYOND = """
model = load(sys.argv[1])
source, caught = [[5, 6, EOS]], []
wrong = [
    lambda d: d.prefill(np.full((1, 500), 5)),
    lambda d: [d.prefill(np.full((1, 1), 5)), *[d.step(np.full((1, 2), 5)) for _ in range(500)]],
    lambda d: [d.prefill(np.full((1, 1), 5)), d.step(np.full((1, 90), 5))],
    lambda d: [d.prefill(np.full((1, 1), 5)), d.step(np.full((9, 2), 5))],
    lambda d: [d.prefill(np.full((1, 1), 5)), d.step(np.full((1, 2), 5), np.full((1, 2), 70))],
]
from glassformer.errors import InputError
for call in wrong:
    try:
        call(model.start(source, 1, 2, 8))
        caught.append("nothing")
    except (InputError, IndexError, ValueError) as error:
        caught.append(type(error).__name__)
print(json.dumps(caught))
"""


def test_a_decoding_that_is_used_beyond_its_size_raises_instead_of_writing_elsewhere(
    tmp_path: Any,
) -> None:
    model = toy()
    caught = answer(BEYOND, save(tmp_path, model.settings, arrays(model)))
    assert "nothing" not in caught, caught
