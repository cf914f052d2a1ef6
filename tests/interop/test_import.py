"""Tiny random models of other libraries give the same numbers here, by torch and by the engine."""

import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer import checkpoint
from glassformer.config import ModelSettings
from glassformer.errors import CheckpointError
from glassformer.interop.ctranslate2 import to_ctranslate2
from glassformer.interop.import_model import read_foreign
from glassformer.model.build import build
from glassformer.model.positions import sinusoids_in_halves
from glassformer.pipeline.torch_models import torch_model
from interop import foreign_models as tiny

SIZES = {"vocab_size": tiny.SIZE, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
DECODER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
DECODER |= {"num_attention_heads": 4, "max_position_embeddings": 32, **SIZES}
IDS = [[4, 9, 7, 11, 5], [6, 6, 19, 4, 8]]


def saved_folder(theirs: Any, folder: Path, tokenizer: bool = True) -> Path:
    tiny.randomise(theirs).save_pretrained(folder)
    if tokenizer:
        tiny.write_tokenizer(folder)
    return folder


def loaded(source: Path, folder: Path) -> Any:
    """Import a model by the public function; return it on the compiled engine."""
    return gf.import_model(source, output=folder / "ours").load(threads=1)


@torch.inference_mode()
def assert_same_logits(theirs: Any, source: Path, folder: Path) -> Any:
    """Compare a language model's log-probabilities with those of torch and of the engine."""
    expected = theirs(torch.tensor(IDS)).logits.log_softmax(-1).numpy()
    ours = torch_model(read_foreign(source))
    found = ours(torch.tensor(IDS)).log_softmax(-1).numpy()
    assert np.abs(found - expected).max() < 1e-5
    model = loaded(source, folder)
    rows = model.decoder.start(None, 2, 1, 5).prefill(np.array(IDS)).rows()
    assert np.abs(rows - expected).max() < 1e-5
    return model


LLAMAS: dict[str, Any] = {
    "grouped": hf.LlamaConfig(**DECODER, num_key_value_heads=2, rms_norm_eps=1e-3),
    "tied, biased": hf.LlamaConfig(
        **DECODER, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "another base": hf.LlamaConfig(
        **DECODER, rope_parameters={"rope_type": "default", "rope_theta": 50.0}
    ),
    "mistral": hf.MistralConfig(**DECODER, num_key_value_heads=2, sliding_window=None),
    "qwen2": hf.Qwen2Config(**DECODER, num_key_value_heads=2, use_sliding_window=False),
}


@pytest.mark.parametrize("name", LLAMAS)
def test_llama_shaped_models_have_the_same_logits(name: str, tmp_path: Path) -> None:
    theirs = hf.AutoModelForCausalLM.from_config(LLAMAS[name])
    assert_same_logits(theirs, saved_folder(theirs, tmp_path / "theirs"), tmp_path)


def test_weights_in_bf16_are_read(tmp_path: Path) -> None:
    theirs = tiny.randomise(hf.LlamaForCausalLM(LLAMAS["grouped"])).bfloat16()
    folder = tmp_path / "theirs"
    theirs.save_pretrained(folder)
    tiny.write_tokenizer(folder)
    again = hf.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert_same_logits(again, folder, tmp_path)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_gpt2_has_the_same_logits(tied: bool, activation: str, tmp_path: Path) -> None:
    config = hf.GPT2Config(
        **SIZES, n_embd=32, n_layer=2, n_head=4, n_positions=32, tie_word_embeddings=tied,
        activation_function=activation,
    )  # fmt: skip
    theirs = hf.GPT2LMHeadModel(config)
    assert_same_logits(theirs, saved_folder(theirs, tmp_path / "theirs"), tmp_path)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_bert_gives_the_same_embeddings(pooling: str, tmp_path: Path) -> None:
    theirs = hf.BertModel(hf.BertConfig(**DECODER, type_vocab_size=2, layer_norm_eps=1e-12))
    folder = saved_folder(theirs, tmp_path / "theirs")
    (folder / "1_Pooling").mkdir()
    modes = {
        "pooling_mode_cls_token": pooling == "first",
        "pooling_mode_max_tokens": pooling == "max",
    }
    tiny.write_json(folder / "1_Pooling" / "config.json", modes)
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Normalize"}]')
    expected = []
    for text in tiny.TEXTS:
        ids = torch.tensor([[2, *(tiny.WORDS.index(word) for word in text.split()), 3]])
        with torch.inference_mode():
            states = theirs(ids).last_hidden_state[0]
        pooled = {"mean": states.mean(0), "first": states[0], "max": states.max(0).values}[pooling]
        expected.append((pooled / pooled.norm()).numpy())
    ours = loaded(folder, tmp_path)
    assert isinstance(ours, gf.Embedder)
    assert np.abs(ours.embed(tiny.TEXTS) - np.array(expected)).max() < 1e-5
    by_torch = gf.load(tmp_path / "ours", engine="torch", threads=1)
    assert np.abs(by_torch.embed(tiny.TEXTS) - np.array(expected)).max() < 1e-5
    assert ours.embed(tiny.TEXTS[0]).shape == (32,)
    assert ours.embed([]).shape == (0, 32)


def seq2seq(kind: Any, **changes: Any) -> Any:
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 24}
    sizes |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    return kind(**SIZES, **sizes, decoder_start_token_id=2, forced_eos_token_id=None, **changes)


@torch.inference_mode()
def assert_same_translation(theirs: Any, source: Path, folder: Path) -> None:
    read, target = [[4, 9, 7, 3]], [[2, 5, 8, 13, 6]]
    theirs.final_logits_bias.normal_()
    theirs.save_pretrained(source)
    expected = theirs(torch.tensor(read), decoder_input_ids=torch.tensor(target)).logits
    log_probs = expected.log_softmax(-1).numpy()
    ours = torch_model(read_foreign(source))(torch.tensor(read), torch.tensor(target))
    assert np.abs(ours.numpy() - expected.numpy()).max() < 1e-5
    model = loaded(source, folder)
    decoding = model.decoders[0].start(read, 1, 1, 5)
    assert np.abs(decoding.prefill(np.array(target)).rows() - log_probs).max() < 1e-5


@pytest.mark.parametrize("scaled", [True, False])
def test_bart_has_the_same_logits(scaled: bool, tmp_path: Path) -> None:
    theirs = hf.BartForConditionalGeneration(seq2seq(hf.BartConfig, scale_embedding=scaled))
    folder = saved_folder(theirs, tmp_path / "theirs")
    assert_same_translation(theirs, folder, tmp_path)


def write_marian_tokenizer(folder: Path) -> None:
    tokenizer = tiny.small_subwords()
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
    tiny.write_json(folder / "vocab.json", {word: i for i, word in enumerate(tiny.WORDS)})


@pytest.mark.parametrize("activation", ["swish", "relu"])
@pytest.mark.parametrize("shared", [True, False])
def test_marian_has_the_same_logits(activation: str, shared: bool, tmp_path: Path) -> None:
    config = seq2seq(
        hf.MarianConfig, scale_embedding=True, activation_function=activation,
        share_encoder_decoder_embeddings=shared, tie_word_embeddings=shared,
        decoder_vocab_size=tiny.SIZE,
    )  # fmt: skip
    theirs = hf.MarianMTModel(config)
    folder = saved_folder(theirs, tmp_path / "theirs", tokenizer=False)
    for stack in (theirs.model.encoder, theirs.model.decoder):  # random until now
        table = sinusoids_in_halves(torch.arange(24), 32)
        stack.embed_positions.weight.data.copy_(table)
    write_marian_tokenizer(folder)
    assert_same_translation(theirs, folder, tmp_path)


OURS = {"vocab_size": tiny.SIZE, "d_model": 32, "n_heads": 4, "d_ff": 48, "encoder_layers": 2}
OURS |= {"decoder_layers": 1, "dropout": 0.0, "attention_bias": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {"residual": "post-norm", "positions": "sinusoidal"},
    "OPUS-MT's": {
        "residual": "post-norm", "positions": "sinusoidal-halves", "feed_forward": "silu",
        "output_bias": True, "start_vector": "zeros",
    },
    "BART's": {
        "residual": "post-norm", "positions": "learned", "max_positions": 20,
        "embedding_norm": True, "embedding_scale": "none", "feed_forward": "gelu",
    },
    "pre-norm, two vocabularies": {
        "positions": "sinusoidal-halves", "tie_source_target": False, "tie_target_output": False,
        "feed_forward": "gelu-tanh", "attention_bias": False,
    },
}  # fmt: skip


def write_ctranslate2(changes: dict[str, Any], folder: Path, int8: bool = False) -> Path:
    model = tiny.randomise(build(ModelSettings(**{**OURS, **changes})))
    names = ["<pad>", "<unk>", "<s>", "</s>", *tiny.WORDS[4:]]
    folder = to_ctranslate2(model, folder, names, max_length=20, int8=int8)
    (folder / "joint.spm").write_bytes(tiny.small_subwords().model)
    return folder


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_ctranslate2_models_translate_as_ctranslate2_does(
    name: str, int8: bool, tmp_path: Path
) -> None:
    folder = write_ctranslate2(VARIANTS[name], tmp_path / "theirs", int8)
    theirs = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    model = gf.load(gf.import_model(folder, output=tmp_path / "ours").folder, False, threads=1)
    sources = [tiny.WORDS[4:9], tiny.WORDS[10:18], ["d", "d"]]
    targets = [tiny.WORDS[9:13], ["p"], tiny.WORDS[4:12]]
    ended = [[*words, "</s>"] for words in sources]
    tokens = [[tiny.WORDS.index(word) for word in words] for words in sources]
    wanted = [[tiny.WORDS.index(word) for word in words] for words in targets]
    scored = theirs.score_batch(ended, targets)
    decoder = model.decoders[0]
    for read, target, expected in zip(tokens, wanted, scored, strict=True):
        ids = np.array([[2, *target]])
        rows = decoder.start([[*read, 3]], 1, 1, 20).prefill(ids).rows()[0]
        found = rows[np.arange(len(target) + 1), [*target, 3]]
        assert np.abs(found - np.array(expected.log_probs)).max() < 1e-4


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1"])
def test_gguf_has_the_logits_of_its_dequantised_weights(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    kinds = dict.fromkeys([f"blk.0.{m}.weight" for m in matrices], kind)
    tensors = tiny.write_gguf(path, {**kinds, "token_embd.weight": kind})
    config = hf.LlamaConfig(
        vocab_size=tiny.SIZE, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0}, max_position_embeddings=32,
    )  # fmt: skip
    theirs = hf.LlamaForCausalLM(config).eval()
    names = {
        "token_embd": "embed_tokens", "output_norm": "norm", "blk.0.attn_norm": "input_layernorm",
        "blk.0.ffn_norm": "post_attention_layernorm", "blk.0.attn_output": "self_attn.o_proj",
        **{f"blk.0.attn_{p}": f"self_attn.{p}_proj" for p in "qkv"},
        **{f"blk.0.ffn_{p}": f"mlp.{p}_proj" for p in ("gate", "up", "down")},
    }  # fmt: skip
    weights = {}
    for name, values in tensors.items():
        stem = name.removesuffix(".weight")
        values = turned(values, 16) if stem.endswith(("attn_q", "attn_k")) else values
        layer = "layers.0." if stem.startswith("blk") else ""
        weights[f"model.{layer}{names[stem]}.weight"] = torch.tensor(values)
    theirs.load_state_dict({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]})
    model = assert_same_logits(theirs, path, tmp_path)
    assert model.chat("b c", sample=False, max_length=12) is not None
    assert model.generate("a b", sample=False, max_length=8).startswith("a b")


def turned(rows: Any, d_k: int) -> Any:
    """Order the rows of queries or keys for RoPE on halves, as before GGUF's converter."""
    heads = rows.reshape(-1, d_k // 2, 2, rows.shape[1])
    return np.ascontiguousarray(heads.swapaxes(1, 2).reshape(rows.shape))


@pytest.mark.parametrize("tied", [True, False])
def test_llama2c_gives_the_same_text_by_torch_and_by_the_engine(tied: bool, tmp_path: Path) -> None:
    ours = gf.import_model(tiny.write_llama2c(tmp_path, tied), output=tmp_path / "ours")
    texts = [
        gf.load(ours.folder, engine=engine, threads=1).generate("ab a", sample=False, max_length=15)
        for engine in ("compiled", "torch")
    ]
    assert texts[0] == texts[1]
    assert checkpoint.read(ours.folder).settings.model.tie_target_output == tied


# What does not fit


def error_of(source: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read_foreign(source)
    return caught.value


def llama_folder(tmp_path: Path, **changes: Any) -> Path:
    folder = saved_folder(hf.LlamaForCausalLM(LLAMAS["grouped"]), tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    tiny.write_json(folder / "config.json", {**config, **changes})
    return folder


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model_type": "mamba"}, "config.json: model_type is 'mamba'."),
        ({"hidden_act": "relu"}, "config.json: hidden_act is 'relu'."),
        ({"hidden_size": "wide"}, "config.json: hidden_size is 'wide'."),
        ({"hidden_size": 10**9}, "config.json: hidden_size is 1000000000."),
        ({"num_hidden_layers": 3}, "layers.2"),
        ({"num_hidden_layers": 1}, "for which this architecture has no place"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type is 'yarn'"),
        ({"sliding_window": 4}, "config.json: sliding_window is 4."),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], what: str, tmp_path: Path) -> None:
    assert what in error_of(llama_folder(tmp_path, **changes)).what


def test_a_missing_tensor_and_a_missing_file_are_named(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors")
    error = error_of(folder)
    assert error.what == "model.safetensors: model.norm.weight is absent."
    assert error.why == "The model's configuration asks for (32,)."
    (folder / "tokenizer.json").unlink()
    assert error_of(folder).what == f"{folder} has no tokenizer.json."
    (folder / "model.safetensors").unlink()
    assert "never from a pickle" in error_of(folder).why


def test_a_folder_or_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    assert "holds no model that is known" in error_of(tmp_path).what
    (tmp_path / "x.pt").write_bytes(b"pickle")
    assert error_of(tmp_path / "x.pt").what == "x.pt is of no known format."
    assert error_of(tmp_path / "absent").what == f"There is no {tmp_path / 'absent'}."
