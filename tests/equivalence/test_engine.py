"""The compiled engine computes in fp32 what `model/` computes in fp64, within 1e-4.

all seams (252 translators)     log-probabilities of every token, padded batches in torch
pairs                           language models, classifiers, taggers, masked language models
biases × ties × vocabularies, shapes that fit no vector, poolings × n-grams
"""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.toys import ODD, engine, sentences, toy
from equivalence.variants import ALL, PAIRS, POSITIONS, Case, cases, choices, variants
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS
from glassformer.engine.model import CompiledModel
from glassformer.model.masks import padding_mask

pytestmark = pytest.mark.usefixtures("unchecked")

TOLERANCE = 1e-4
# The kernel of the torch model does not exist in the engine.
SEAMS = [case for case in ALL if case["attention"] == "fused"]
OTHERS = [case for case in PAIRS if case["attention"] == "fused"]
LENGTHS = (5, 1, 18)  # less than, one of, and more than the 16 keys that lie side by side


def odd(variant: Case, **changes: Any) -> Any:
    """A toy whose widths fit no vector; two heads of keys where the variant asks for one of 4."""
    sizes = {"d_model": 24, "n_heads": 4}
    if variant.get("positions") == "relative":
        sizes["max_distance"] = 2
    return toy(ODD, **sizes | variant | changes)


def log_probs(
    model: CompiledModel, sources: list[list[int]] | None, inputs: list[list[int]]
) -> list[NDArray[np.float32]]:
    """Log-probabilities after every token of inputs of one length, read at once."""
    ids = np.array(inputs)
    return list(model.start(sources, len(ids), 1, ids.shape[1]).prefill(ids).rows())


def assert_decodes_as_the_model_does(model: Any) -> None:
    reads_source = model.settings.kind == "translator"
    size = model.settings.source_vocab_size or model.settings.vocab_size
    sources = sentences(*LENGTHS, size=size) if reads_source else None
    inputs = [[BOS, *row] for row in sentences(19, 19, 19, seed=1, size=model.settings.vocab_size)]
    found = np.stack(log_probs(engine(model), sources, inputs))
    with torch.inference_mode():
        ids = torch.tensor(inputs)
        given = (ids,) if sources is None else (pad(sources, 0), ids)
        expected = model.double()(*given).log_softmax(-1).numpy()
    assert np.abs(found - expected).max() < TOLERANCE


def assert_labels_as_the_model_does(model: Any, vocab_size: int = ODD.vocab_size) -> None:
    rows = sentences(*LENGTHS, 9, size=vocab_size)
    compiled = engine(model)
    with torch.inference_mode():
        logits = model.double()(pad(rows, 0)).numpy()
    if model.settings.kind == "classifier":
        assert np.abs(compiled.classify(rows) - logits).max() < TOLERANCE
        return
    for found, expected, row in zip(compiled.tag(rows), logits, rows, strict=True):
        assert found.shape == (len(row), expected.shape[-1])
        assert np.abs(found - expected[: len(row)]).max() < TOLERANCE


@pytest.mark.parametrize("variant", variants(SEAMS, "translator"))
def test_a_translator_gives_the_log_probabilities_of_the_model(variant: Case) -> None:
    assert_decodes_as_the_model_does(odd(variant))


@pytest.mark.parametrize("variant", variants(OTHERS, "language-model"))
def test_a_language_model_gives_the_log_probabilities_of_the_model(variant: Case) -> None:
    assert_decodes_as_the_model_does(odd(variant))


@pytest.mark.parametrize(
    "variant", variants(OTHERS, "classifier", "tagger", "masked-language-model")
)
def test_an_encoder_gives_the_logits_of_the_model(variant: Case) -> None:
    assert_labels_as_the_model_does(odd(variant))


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-halves", "learned", "rope"])
@pytest.mark.parametrize("embedding_norm", [False, True])
def test_a_decoder_may_start_from_zeros(positions: str, embedding_norm: bool) -> None:
    changes = {"positions": positions, "embedding_norm": embedding_norm}
    assert_decodes_as_the_model_does(odd({}, start_vector="zeros", **changes))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("separate", [True, False])
def test_a_bias_of_the_output_is_added_to_logits_only(tied: bool, separate: bool) -> None:
    ties = {"tie_target_output": tied, "tie_source_target": not separate}
    assert_decodes_as_the_model_does(odd({}, output_bias=True, **ties))


@pytest.mark.parametrize("pooling", choices("pooling"))
@pytest.mark.parametrize("residual", choices("residual"))
def test_an_embedder_gives_the_vectors_of_the_model(pooling: str, residual: str) -> None:
    changes = {"kind": "embedder", "pooling": pooling, "residual": residual}
    for unit_length in (False, True):
        model, rows = odd(changes, unit_length=unit_length), sentences(*LENGTHS, 9)
        with torch.inference_mode():
            expected = model.double()(pad(rows, 0)).numpy()
        assert np.abs(engine(model.float()).embed(rows) - expected).max() < TOLERANCE
        assert np.allclose(np.linalg.norm(expected, axis=1), 1) == unit_length


BIASES = cases({"attention_bias": (False, True), "feed_forward_bias": (False, True)})
TIES = [
    {"tie_source_target": True, "tie_target_output": True},
    {"tie_source_target": True, "tie_target_output": False},
    {"tie_source_target": False, "tie_target_output": True},
    {"tie_source_target": False, "tie_target_output": False},
    {"tie_source_target": False, "tie_target_output": True, "source_vocab_size": 131},
    {"tie_source_target": False, "tie_target_output": False, "source_vocab_size": 9},
]


@pytest.mark.parametrize("biases", BIASES, ids=str)
@pytest.mark.parametrize("feed_forward", choices("feed_forward"))
def test_biases_are_added_where_the_settings_have_them(biases: Case, feed_forward: str) -> None:
    for kind in ("translator", "language-model"):
        assert_decodes_as_the_model_does(
            odd({"kind": kind, "feed_forward": feed_forward}, **biases)
        )


@pytest.mark.parametrize("ties", TIES, ids=str)
def test_tied_and_separate_tables_are_read_each_where_it_belongs(ties: Case) -> None:
    assert_decodes_as_the_model_does(odd({}, **ties))


@pytest.mark.parametrize("kind", ["language-model", "masked-language-model"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_output_of_a_language_model_may_be_its_embedding(kind: str, tied: bool) -> None:
    model = odd({"kind": kind, "tie_target_output": tied})
    if kind == "language-model":
        assert_decodes_as_the_model_does(model)
    else:
        assert_labels_as_the_model_does(model)


SHAPES = [  # d_model, n_heads, n_kv_heads, d_ff, vocab_size
    (2, 1, 1, 1, 5),
    (6, 3, 1, 7, 64),
    (6, 1, 1, 5, 65),
    (20, 5, 5, 41, 127),
    (34, 1, 1, 16, 128),
    (48, 3, 3, 64, 129),
    (96, 2, 1, 100, 300),
    (160, 2, 2, 65, 66),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("positions", POSITIONS)
def test_any_width_gives_the_log_probabilities_of_the_model(
    shape: tuple[int, ...], positions: str
) -> None:
    names = ("d_model", "n_heads", "n_kv_heads", "d_ff", "vocab_size")
    model = toy(ODD, positions=positions, **dict(zip(names, shape, strict=True)))
    for parameter in model.parameters():
        parameter.data *= min(1.0, (20 / shape[0]) ** 0.5)  # logits of a usual size
    assert_decodes_as_the_model_does(model)


@pytest.mark.parametrize("pooling", choices("pooling"))
def test_a_classifier_pools_as_the_model_does(pooling: str) -> None:
    model = odd({"kind": "classifier", "pooling": pooling}, vocab_size=12)
    assert_labels_as_the_model_does(model, 12)


@pytest.mark.parametrize("kind", ["translator", "classifier", "tagger", "masked-language-model"])
@pytest.mark.parametrize("residual", choices("residual"))
def test_the_output_of_the_encoder_is_that_of_the_model(kind: str, residual: str) -> None:
    model, rows = odd({"kind": kind, "residual": residual}), sentences(*LENGTHS, 9)
    found = engine(model).encode(rows)
    with torch.inference_mode():
        ids = pad(rows, 0)
        expected = model.double().encoder(ids, padding_mask(ids, 0)).numpy()
    for ours, theirs, row in zip(found, expected, rows, strict=True):
        assert ours.shape == (len(row), theirs.shape[-1])
        assert np.abs(ours - theirs[: len(row)]).max() < TOLERANCE
