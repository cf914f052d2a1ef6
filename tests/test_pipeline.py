"""A checkpoint that you can call: text in, text out, whoever else is in the batch."""

import pytest
import torch

from glassformer import checkpoint, pipeline
from glassformer.checkpoint import Checkpoint, RunFolder, weights_of
from glassformer.config import RunSettings
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.errors import CheckpointError
from glassformer.model.build import build
from glassformer.pipeline import Translator, load

ENGLISH = ["a dog", "the old cat sees a dog", "two children want some tea", "a house of tea"]
FRENCH = ["un chien", "le vieux chat voit un chien", "deux enfants veulent du thé", "la maison"]
TOKENIZERS = {
    "joint": Tokenizer.train((ENGLISH + FRENCH) * 5, 60),
    "source": Tokenizer.train(ENGLISH * 5, 40),
    "target": Tokenizer.train(FRENCH * 5, 45),
}
JOINT, SEPARATE = ["joint"], ["source", "target"]


def saved(sides=JOINT, seed: int = 0, kind: str = "translator") -> Checkpoint:
    """A run's settings, weights so large that it says this and that, and its subwords."""
    sizes = {
        "d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1,
        "tie_target_output": False,
    }  # fmt: skip
    tokenizers = {side: TOKENIZERS[side] for side in sides}
    if sides == SEPARATE:
        sizes |= {"source_vocab_size": 40, "tie_source_target": False, "vocab_size": 45}
    else:
        sizes |= {"vocab_size": 60}
    settings = RunSettings.of(model={"kind": kind, **sizes})
    torch.manual_seed(seed)
    weights = weights_of(build(settings.model))
    large = {n: torch.randn_like(w) / 2 for n, w in weights.items() if w.dim() == 2}
    return Checkpoint(settings, weights | large, tokenizers)


def translator_of(content: Checkpoint) -> Translator:
    model = build(content.settings.model)
    checkpoint.set_weights(model, content.weights)
    return Translator(model.double(), content.tokenizers, content.settings)


@pytest.fixture(params=[JOINT, SEPARATE], ids=["joint", "separate"])
def translator(request) -> Translator:
    return translator_of(saved(request.param))


def test_one_text_gives_a_text_and_many_give_a_list(translator):
    said = translator.translate(ENGLISH[1])
    assert isinstance(said, str)
    assert translator.translate(ENGLISH[1:2]) == translator.translate((ENGLISH[1],)) == [said]


def test_answers_are_the_same_alone_and_in_any_batch(translator):
    texts = ["tea", *ENGLISH[1:3], " ".join(ENGLISH)]
    alone = [translator.translate(text) for text in texts]
    assert len(set(alone)) == len(texts), "the answers depend on the questions"
    for batch_tokens in (30, 4_096):
        assert translator.translate(texts, batch_tokens) == alone


@pytest.mark.parametrize("batch_tokens", [1, 30, 4_096])
def test_answers_keep_the_order_of_the_questions_and_batches_their_budget(
    monkeypatch, batch_tokens
):
    shapes = []

    def echo(model, source, bos, eos):
        shapes.append(tuple(source.shape))
        return [row[: row.index(eos)] for row in source.tolist()]

    monkeypatch.setattr(pipeline, "greedy", echo)
    texts = [*ENGLISH, *FRENCH] * 2
    assert translator_of(saved()).translate(texts, batch_tokens) == texts
    assert all(rows * width <= batch_tokens or rows == 1 for rows, width in shapes)


def test_nothing_to_translate_gives_nothing(translator):
    assert translator.translate([]) == []


@pytest.mark.parametrize("text", ["", " ", "☃"], ids=repr)
def test_odd_texts_are_texts(translator, text):
    assert isinstance(translator.translate(text), str)


def test_the_sides_have_their_own_subwords():
    translator = translator_of(saved(SEPARATE))
    assert translator.source_tokenizer is TOKENIZERS["source"]
    assert translator.target_tokenizer is TOKENIZERS["target"]


def test_the_inputs_are_those_of_training(translator):
    source, target = translator.inputs(ENGLISH[1], FRENCH[1])
    (x,), (y,) = (
        tokenizer.encode([text])
        for tokenizer, text in [
            (translator.source_tokenizer, ENGLISH[1]),
            (translator.target_tokenizer, FRENCH[1]),
        ]
    )
    assert source.tolist() == [[*x, EOS]]
    assert target.tolist() == [[BOS, *y]]


def test_what_is_called_drops_nothing_out(translator):
    assert not translator.model.training
    assert translator.translate(ENGLISH) == translator.translate(ENGLISH)


def same_weights(translator: Translator, content: Checkpoint) -> bool:
    ours = weights_of(translator.model)
    return all(torch.equal(ours[name], tensor) for name, tensor in content.weights.items())


def test_a_run_gives_its_best_and_a_checkpoint_itself(tmp_path):
    run, best, latest = RunFolder(tmp_path / "run"), saved(seed=1), saved(seed=2)
    run.save(best, 1, is_best=True, keep=3)
    folder = run.save(latest, 2, is_best=False, keep=3)
    assert same_weights(load(run.path), best)
    assert same_weights(load(str(run.path)), best)
    for place in (folder, run.path / "latest"):
        assert same_weights(load(place), latest)


def test_a_run_without_a_best_gives_its_latest(tmp_path):
    run, latest = RunFolder(tmp_path), saved(seed=2)
    run.save(saved(seed=1), 1, is_best=False, keep=3)
    run.save(latest, 2, is_best=False, keep=3)
    assert same_weights(load(tmp_path), latest)


@pytest.mark.parametrize("sides", [JOINT, SEPARATE], ids=str)
def test_what_is_loaded_translates_as_what_was_saved(tmp_path, sides):
    content = saved(sides)
    checkpoint.write(content, tmp_path / "step-1")
    loaded = load(tmp_path / "step-1")
    assert loaded.settings == content.settings
    loaded.model.double()
    assert loaded.translate(ENGLISH) == translator_of(content).translate(ENGLISH)


@pytest.mark.parametrize("kind", ["classifier", "language-model", "tagger"])
def test_another_kind_of_model_is_named(tmp_path, kind):
    checkpoint.write(saved(kind=kind), tmp_path / "step-1")
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "step-1")
    assert kind in caught.value.what and str(tmp_path) in caught.value.what
    assert "translator" in caught.value.why.lower() and "translator" in caught.value.remedy


def test_a_translator_of_symbols_has_no_text_to_be_called_with(tmp_path):
    checkpoint.write(saved(sides=[]), tmp_path / "step-1")
    with pytest.raises(CheckpointError, match="translators of text"):
        load(tmp_path / "step-1")


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_folder_without_a_checkpoint_is_named(tmp_path, name):
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / name)
    assert str(tmp_path / name) in caught.value.what
    assert "manifest.json" in caught.value.why
    assert "folder of a run" in caught.value.remedy
