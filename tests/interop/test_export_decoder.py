"""A language model written for Hugging Face has the same numbers, there and read back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.numpy import load_file

import glassformer as gf
from cli.models import TEXTS, TOKENIZER, write_model
from glassformer import checkpoint
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError, InputError
from glassformer.interop import export_model, safetensors_file
from glassformer.interop.import_model import read_foreign
from glassformer.interop.library_tokenizer import of_sentencepiece
from glassformer.pipeline.torch_models import torch_model
from interop import foreign_models as tiny
from interop.test_import import DECODER, LLAMAS, SIZES, saved_folder

GPT2 = hf.GPT2Config(**SIZES, n_embd=32, n_layer=2, n_head=4, n_positions=32)
THEIRS: dict[str, Any] = {name: LLAMAS[name] for name in ("grouped", "tied, biased")}
THEIRS["gpt-2"] = GPT2


def round_trip(config: Any, tmp_path: Path) -> tuple[Path, Path]:
    """Import a model of Hugging Face and export it again; return both folders."""
    theirs = hf.AutoModelForCausalLM.from_config(config)
    folder = saved_folder(theirs, tmp_path / "theirs")
    ours = gf.import_model(folder, output=tmp_path / "ours").folder
    done = gf.export(ours, "hf", tmp_path / "again", texts=("a b c", "p o n"))
    assert done.same == done.checked == 3, done.differences
    return folder, done.folder


@pytest.mark.parametrize("name", THEIRS)
def test_a_round_trip_keeps_every_bit(name: str, tmp_path: Path) -> None:
    folder, again = round_trip(THEIRS[name], tmp_path)
    before, after = (load_file(place / "model.safetensors") for place in (folder, again))
    assert before.keys() == after.keys()
    for tensor in before:
        np.testing.assert_array_equal(after[tensor], before[tensor])
    first, second = read_foreign(folder), read_foreign(again)
    assert second.settings == first.settings
    assert second.tokenizers["joint"].described == first.tokenizers["joint"].described  # type: ignore[attr-defined]


OWN: dict[str, dict[str, Any]] = {
    "modern": {
        "positions": "rope", "norm": "rms-norm", "feed_forward": "swiglu", "n_kv_heads": 1,
        "feed_forward_bias": False,
    },
    "modern, tied": {
        "positions": "rope", "norm": "rms-norm", "feed_forward": "swiglu",
        "tie_target_output": True, "attention_bias": True,
    },
    "the paper's decoder": {},
    "learned positions, tied": {
        "positions": "learned", "max_positions": 40, "embedding_scale": "none",
        "feed_forward": "gelu-tanh", "attention_bias": True, "tie_target_output": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_model_of_ours_has_the_same_logits_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run", "language-model", model=OWN[name])
    done = gf.export("run", "hf", "there", texts=("a dog sees the cat", "two  children"))
    assert done.same == done.checked == 3, done.differences
    ours: Any = torch_model(checkpoint.read(Path("run")))
    theirs: Any = hf.AutoModelForCausalLM.from_pretrained("there").eval()
    ids = torch.tensor([[2, 9, 7, 11, 5], [2, 6, 19, 4, 8]])
    with torch.inference_mode():
        expected, found = ours(ids), theirs(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    again = torch_model(read_foreign(Path("there")))
    with torch.inference_mode():
        torch.testing.assert_close(again(ids), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_subwords_are_the_same_in_the_other_library(kind: Any, byte_fallback: bool) -> None:
    from tokenizers import Tokenizer as Library

    size = 420 if byte_fallback else 60
    ours = Tokenizer.train(TEXTS * 50, size, kind, byte_fallback=byte_fallback)
    theirs = Library.from_str(json.dumps(of_sentencepiece(ours.model)))
    texts = [*TEXTS, "  a  dog ", "", "catsandtea", "ﬁ a dog² – €", "the\tcat\nsees", "é"]
    for text in texts:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ids == ours.encode([text])[0], text
        if ours.unk_id not in ids:
            assert theirs.decode(ids) == ours.decode(ids), text


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ({"residual": "post-norm"}, "residual = 'post-norm'"),
        ({"positions": "rope"}, "norm = 'layer-norm'"),
        ({"positions": "alibi"}, "positions = 'alibi'"),
        ({"output_bias": True}, "output_bias = True"),
    ],
    ids=str,
)
def test_an_architecture_of_neither_is_refused(
    model: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run", "language-model", model=model)
    with pytest.raises(InputError, match=f"with {what} cannot be written for Hugging Face"):
        gf.export("run", "hf", "there")


def test_other_kinds_and_formats_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run", "language-model", model=OWN["modern"])
    with pytest.raises(InputError, match="a language-model, which is not exported to onnx"):
        gf.export("run", "onnx", "there")
    with pytest.raises(InputError, match="Hugging Face's folder has no eight bits"):
        gf.export("run", "hf", "there", int8=True)
    write_model("labels", "classifier")
    with pytest.raises(InputError, match="a classifier, which is not exported to hf"):
        gf.export("labels", "hf", "there")


# Shards


def sharded(tmp_path: Path) -> Path:
    """Write a Llama as Hugging Face does, in several files."""
    theirs = hf.LlamaForCausalLM(LLAMAS["grouped"])
    folder = saved_folder(theirs, tmp_path / "theirs")
    (folder / "model.safetensors").unlink()
    theirs.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


def test_shards_give_the_model_of_one_file(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    one = tmp_path / "one"
    hf.LlamaForCausalLM.from_pretrained(folder).save_pretrained(one)
    tiny.write_tokenizer(one)
    first, second = read_foreign(one).weights, read_foreign(folder).weights
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_large_model_is_exported_in_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_model, "write_tensors", write_small_shards)
    folder, again = round_trip(hf.LlamaConfig(**DECODER), tmp_path)
    assert not (again / "model.safetensors").exists()
    files = sorted(again.glob("*.safetensors"))
    assert len(files) > 2
    index = json.loads((again / safetensors_file.INDEX).read_text())
    before = load_file(folder / "model.safetensors")
    assert index["metadata"]["total_size"] == sum(values.nbytes for values in before.values())
    held = {name: file.name for file in files for name in load_file(file)}
    assert index["weight_map"] == held
    assert all((load_file(again / held[name])[name] == before[name]).all() for name in before)


def write_small_shards(tensors: Any, folder: Path) -> None:
    safetensors_file.write_tensors(tensors, folder, shard=20_000)


def error_of(folder: Path, places: dict[str, Any]) -> str:
    """Return how the folder is refused whose index gives these places."""
    tiny.write_json(folder / safetensors_file.INDEX, {"weight_map": places})
    with pytest.raises(CheckpointError) as caught:
        read_foreign(folder)
    return caught.value.what


def test_shards_that_do_not_go_with_their_index_are_named(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    places = json.loads((folder / safetensors_file.INDEX).read_text())["weight_map"]
    norm, shard = "model.norm.weight", places["model.embed_tokens.weight"]
    outside = error_of(folder, {**places, norm: "../elsewhere.safetensors"})
    assert "it names the file '../elsewhere.safetensors'" in outside
    assert "has no absent.safetensors" in error_of(folder, {**places, norm: "absent.safetensors"})
    none = error_of(folder, {**places, norm: 3})
    assert "weight_map does not give a file for each tensor" in none
    assert error_of(folder, {**places, "model.new": shard}) == f"{shard} lacks model.new."
    del places["model.embed_tokens.weight"]
    lost = f"{shard} holds, unlike the index says, model.embed_tokens.weight."
    assert error_of(folder, places) == lost
    (folder / safetensors_file.INDEX).unlink()
    with pytest.raises(
        CheckpointError, match=r"safetensors files and no model\.safetensors\.index"
    ):
        read_foreign(folder)


def test_a_tokenizer_of_ours_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("run", "language-model", model=OWN["modern"])
    gf.export("run", "hf", "there", texts=())
    again: Any = gf.import_model("there", output=tmp_path / "again").load(threads=1)
    ours: Any = gf.load("run", threads=1)
    prompt = "the old cat"
    how: dict[str, Any] = {"sample": False, "max_length": 20}
    assert again.generate(prompt, **how) == ours.generate(prompt, **how)
    assert again.tokenizer.before == (TOKENIZER.bos_id,)
