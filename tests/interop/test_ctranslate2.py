"""The same weights in CTranslate2's format give the same probabilities."""

import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from equivalence.variants import PAIRS, randomised, toy_settings
from glassformer.checkpoint import weights_of
from glassformer.data.tokenizer import BOS, EOS
from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.ctranslate2 import POSITIONS, to_ctranslate2
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

NAMES = list(map(str, range(11)))
REFUSED = {"alibi": "AlibiBias", "relative": "RelativePositionBias"}
WRITTEN = [case for case in PAIRS if case["positions"] not in REFUSED]
EXTRAS: list[dict[str, Any]] = [
    {"attention_bias": True},
    {"feed_forward_bias": False},
    {"feed_forward": "swiglu", "attention_bias": True, "feed_forward_bias": False},
    {"tie_target_output": False},
    {"tie_source_target": False, "source_vocab_size": 13},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"start_vector": "zeros"},
]


def toy(**choices: Any) -> Transformer:
    model = randomised(build(toy_settings(max_positions=16, **choices)).eval())
    assert isinstance(model, Transformer)
    return model


def sentences(*lengths: int) -> list[list[int]]:
    return [torch.randint(4, len(NAMES), (n,)).tolist() for n in lengths]


def names(ids: list[int]) -> list[str]:
    return list(map(str, ids))


@torch.no_grad()
def assert_same_probabilities(model: Transformer, folder: Path) -> None:
    """Score every token of a batch of sentences of many lengths, teacher-forced."""
    sources = [[*ids, EOS] for ids in sentences(7, 1, 4)]
    targets = sentences(3, 9, 5)
    engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    scored = engine.score_batch(list(map(names, sources)), list(map(names, targets)))
    for source, target, theirs in zip(sources, targets, scored, strict=True):
        err = torch.tensor([*target, EOS])
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *target]]))[0]
        ours = logits.log_softmax(-1).gather(1, err[:, None]).flatten()
        assert theirs.tokens == names(err.tolist())
        torch.testing.assert_close(torch.tensor(theirs.log_probs), ours, atol=1e-4, rtol=0)


@pytest.mark.parametrize("choices", WRITTEN + EXTRAS, ids=str)
def test_every_token_has_the_same_probability(choices: dict[str, Any], tmp_path: Path) -> None:
    model = toy(**choices)
    source = names(list(range(model.encoder.embedding.weight.size(0))))
    assert_same_probabilities(model, to_ctranslate2(model, tmp_path, source, NAMES))


def test_the_cases_cover_every_architecture_that_can_be_exported() -> None:
    assert {case["positions"] for case in WRITTEN} == set(POSITIONS.values())
    for seam in ("residual", "norm", "feed_forward", "n_kv_heads"):
        assert {case[seam] for case in WRITTEN} == {case[seam] for case in PAIRS}


def test_a_custom_scale_and_epsilon_are_exported(tmp_path: Path) -> None:
    model = toy()
    for module in model.modules():
        if hasattr(module, "scale") and hasattr(module, "kernel"):
            module.scale = 1.0
        if hasattr(module, "eps"):
            module.eps = 0.1
    assert_same_probabilities(model, to_ctranslate2(model, tmp_path, NAMES))


def test_a_sentence_longer_than_the_position_table_is_refused(
    tmp_path: Path,
) -> None:
    folder = to_ctranslate2(toy(), tmp_path, NAMES, max_length=4)
    engine = ctranslate2.Translator(str(folder), intra_threads=1)
    with pytest.raises(RuntimeError, match="position"):
        engine.translate_batch([names([5, 6, 7, 8, EOS])])


def test_int8_files_are_smaller_and_the_model_is_unchanged(tmp_path: Path) -> None:
    model = toy()
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    sizes = []
    for int8 in (False, True):
        folder = to_ctranslate2(model, tmp_path / str(int8), NAMES, int8=int8)
        sizes.append((folder / "model.bin").stat().st_size)
        engine = ctranslate2.Translator(str(folder), intra_threads=1)
        assert ("int8" in engine.compute_type) == int8
    assert sizes[1] < sizes[0]
    after = weights_of(model)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("positions", REFUSED)
def test_unsupported_positions_are_refused(positions: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        to_ctranslate2(toy(positions=positions), tmp_path / "model", NAMES)
    assert error.value.what == f"{REFUSED[positions]} cannot be written for CTranslate2."
    assert "no such positions" in error.value.why
    assert "'sinusoidal' or 'sinusoidal-halves' or 'learned' or 'rope'" in error.value.remedy
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("source", "target", "what"),
    [
        (NAMES[:-1], NAMES, "10 source tokens were given, 10 of them distinct"),
        (NAMES, [*NAMES, "11"], "12 target tokens were given, 12 of them distinct"),
        ([*NAMES[:-1], "5"], NAMES, "11 source tokens were given, 10 of them distinct"),
    ],
    ids=["too few", "too many", "one twice"],
)
def test_duplicate_or_missing_tokens_are_refused(
    source: list[str], target: list[str], what: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=what) as error:
        to_ctranslate2(toy(), tmp_path, source, target)
    assert "the model has 11" in error.value.why
    assert "in the order of the ids" in error.value.remedy


def test_different_special_tokens_on_the_sides_are_refused(tmp_path: Path) -> None:
    other = ["<pad>", *NAMES[1:]]
    with pytest.raises(InputError, match=r"special tokens are \['0', .*the source, \['<pad>'"):
        to_ctranslate2(toy(), tmp_path, NAMES, other)


def test_without_ctranslate2_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(MissingPackageError, match="'ctranslate2' is not installed") as error:
        to_ctranslate2(toy(), tmp_path, NAMES)
    assert "glassformer[peers]" in error.value.remedy
