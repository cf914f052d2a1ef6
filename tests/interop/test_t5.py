"""T5 gives the same numbers here, by torch and by the engine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.errors import CheckpointError
from glassformer.interop.foreign import read_json
from glassformer.interop.import_model import read_foreign
from glassformer.pipeline.torch_models import torch_model
from interop import foreign_models as tiny
from interop.test_import import saved_folder

SIZES: dict[str, Any] = {
    "vocab_size": tiny.SIZE, "d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48, "num_layers": 2,
    "num_decoder_layers": 1, "relative_attention_max_distance": 20, "pad_token_id": 0,
    "eos_token_id": 3, "decoder_start_token_id": 0,
}  # fmt: skip
CONFIGS: dict[str, Any] = {
    "t5": hf.T5Config(**SIZES, feed_forward_proj="relu"),
    "t5 1.1": hf.T5Config(**SIZES, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "mt5": hf.MT5Config(**SIZES, feed_forward_proj="gated-silu", layer_norm_epsilon=0.1),
}
LONG = [4 + i % 15 for i in range(40)]  # beyond the exact buckets and the largest distance


@pytest.mark.parametrize("name", CONFIGS)
def test_t5_has_the_same_logits(name: str, tmp_path: Path) -> None:
    theirs = hf.AutoModelForSeq2SeqLM.from_config(CONFIGS[name])
    folder = saved_folder(theirs, tmp_path / "theirs")
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    read, target = [[*LONG, 3]], [[0, *LONG[::-1]]]
    with torch.inference_mode():
        expected = theirs(torch.tensor(read), decoder_input_ids=torch.tensor(target)).logits
        ours: Any = torch_model(read_foreign(folder))
        found = ours(torch.tensor(read), torch.tensor(target))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
    model: Any = gf.import_model(folder, output=tmp_path / "ours").load(threads=1)
    rows = model.decoders[0].start(read, 1, 1, 50).prefill(np.array(target)).rows()
    assert np.abs(rows - expected.log_softmax(-1).numpy()).max() < 1e-4
    assert model.settings.model.tie_target_output == ("lm_head.weight" not in stored(folder))


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_an_output_of_its_own_is_kept(tmp_path: Path) -> None:
    """T5 1.1 has one; recent versions of transformers tie it unless the file has both."""
    theirs = hf.AutoModelForSeq2SeqLM.from_config(CONFIGS["t5 1.1"])
    folder = saved_folder(theirs, tmp_path / "theirs")
    weights = stored(folder)
    output = torch.randn(tiny.SIZE, 32)
    save_file({**weights, "lm_head.weight": output}, folder / "model.safetensors")
    saved = read_foreign(folder)
    assert not saved.settings.model.tie_target_output
    assert np.array_equal(saved.weights["output.weight"], output.numpy())


def test_the_attention_of_t5_by_its_equation(tmp_path: Path) -> None:
    """softmax(q kᵀ + b) v without a scale, with a bias by bucketed distance: one head by hand."""
    theirs = hf.T5ForConditionalGeneration(CONFIGS["t5"])
    folder = saved_folder(theirs, tmp_path / "theirs")
    w = stored(folder)
    attention = "encoder.block.0.layer.0.SelfAttention"
    x = torch.randn(5, 32)
    q, k = (x @ w[f"{attention}.{name}.weight"].T[:, :8] for name in "qk")
    # Bidirectional, 32 buckets: distances 0 … 7 back have rows 0 … 7, those ahead rows 16 on.
    row = torch.tensor([[(16 + j - i) if j > i else i - j for j in range(5)] for i in range(5)])
    bias = w[f"{attention}.relative_attention_bias.weight"][row, 0]
    expected = (q @ k.T + bias).softmax(-1)
    ours: Any = torch_model(read_foreign(folder))
    with torch.inference_mode(), gf.record_attention(ours) as maps:
        _, score_bias = ours.encoder.geometry(torch.arange(5), torch.arange(5))
        ours.encoder.layers[0].self_attention(x[None], bias=score_bias)
    (found,) = maps["encoder.layers.0.self_attention"]
    torch.testing.assert_close(found[0, 0], expected, atol=1e-5, rtol=1e-5)


def test_t5_translates_with_its_sentencepiece_model(tmp_path: Path) -> None:
    subwords = write_spiece(tmp_path)
    sizes = {**SIZES, "vocab_size": len(subwords) + 5, "eos_token_id": 1}
    theirs = tiny.randomise(hf.T5ForConditionalGeneration(hf.T5Config(**sizes)))
    folder = tmp_path / "theirs"
    theirs.save_pretrained(folder)
    (tmp_path / "spiece.model").rename(folder / "spiece.model")
    model: Any = gf.import_model(folder, output=tmp_path / "ours").load(threads=1)
    text = "a dog sees the cat"
    read = torch.tensor([[*subwords.encode(text), 1]])
    how: dict[str, Any] = {"num_beams": 1, "do_sample": False, "suppress_tokens": [0]}
    with torch.inference_mode():
        out = theirs.generate(read, max_new_tokens=12, **how)[0, 1:].tolist()
    found = model.n_best([text], model.options(1, max_length=12))[0][0].ids
    assert found == [i for i in out if i != 1]
    assert isinstance(model.translate(text, 1, split=False, max_length=12), str)


def write_spiece(folder: Path) -> sentencepiece.SentencePieceProcessor:
    """Write a unigram model with T5's marks: padding, end and unknown are 0, 1 and 2."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog sees the cat", "the old cat sees a dog"] * 9),
        model_prefix=str(folder / "spiece"), vocab_size=30, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"d_kv": 16}, "config.json: d_kv is 16."),
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets is 16."),
        ({"feed_forward_proj": "gated-relu"}, "feed_forward_proj is 'gated-relu'."),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], what: str, tmp_path: Path) -> None:
    folder = saved_folder(hf.T5ForConditionalGeneration(CONFIGS["t5"]), tmp_path / "theirs")
    config = read_json(folder / "config.json")
    tiny.write_json(folder / "config.json", {**config, **changes})
    with pytest.raises(CheckpointError) as caught:
        read_foreign(folder)
    assert what in caught.value.what
