"""Models with the tokenizers and marks of other libraries are traced as ours are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data.foreign_tokenizer import Description, read_tokenizer, spelling_of
from glassformer.data.tokenizer import Tokenizer
from glassformer.inspect.pictures import figures
from glassformer.inspect.report import html_of
from glassformer.inspect.trace import Trace
from glassformer.interop.subwords import PRE_TOKENIZERS, byte_level_bpe
from glassformer.model.build import build

SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "dropout": 0.0}
SIZES |= {"encoder_layers": 2, "decoder_layers": 2}
TEXT = "the cats sat."


def word_pieces() -> Tokenizer:
    """Return BERT's kind: [CLS] text [SEP], and ## within a word."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "sat", "."]
    marks = [{"id": i, "content": words[i], "special": True, **PLAIN} for i in range(4)]
    library = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": marks,
        "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)},
        },
    }  # fmt: skip
    return foreign(size=9, pad_id=0, before=(2,), after=(3,), tokenizer=library)


PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def bytes_as_letters() -> Tokenizer:
    """Return GPT-2's kind without a begin mark; é is two tokens of a byte each."""
    pieces = ["<|end|>", *"catshe.", "Ġ", "Ã", "©", "Ġs", "Ġc", "th"]
    library = byte_level_bpe(pieces, ["Ġ s", "Ġ c", "t h"], ["<|end|>"], "gpt-2")
    assert "gpt-2" in PRE_TOKENIZERS
    return foreign(size=len(pieces), pad_id=-1, bos_id=0, eos_id=0, tokenizer=library)


def pieces_of_marian() -> Tokenizer:
    """Return Marian's kind, whose begin mark has the id of padding."""
    subwords = Tokenizer.train(["the cats sat.", "a cat sat"] * 9, 30)
    own = subwords.pieces(range(4, len(subwords)))
    pieces = ["</s>", "<unk>", *own, "<pad>"]
    described = Description.of_pieces(
        pieces, subwords.model, pad_id=len(pieces) - 1, bos_id=len(pieces) - 1, eos_id=0,
        unk_id=1, after=(0,),
    )  # fmt: skip
    return read_tokenizer(described.to_bytes())


def foreign(**values: Any) -> Tokenizer:
    marks = {"unk_id": 1, "bos_id": 2, "eos_id": 3}
    return read_tokenizer(Description(**{**marks, **values}).to_bytes())


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bert": (
        word_pieces,
        {
            "kind": "embedder", "positions": "learned", "max_positions": 12, "embedding_norm": True,
            "residual": "post-norm", "feed_forward": "gelu",
        },
    ),
    "marian": (
        pieces_of_marian,
        {"kind": "translator", "residual": "post-norm", "output_bias": True},
    ),
    "llama": (
        bytes_as_letters,
        {
            "kind": "language-model", "positions": "rope", "norm": "rms-norm", "n_kv_heads": 1,
            "feed_forward": "swiglu", "rope_pairs": "halves",
        },
    ),
}  # fmt: skip


def model_of(name: str, folder: Path, engine: Any = "torch") -> Any:
    make, changes = MODELS[name]
    tokenizer = make()
    sizes = {**SIZES, "vocab_size": len(tokenizer), "pad_id": tokenizer.pad_id}
    settings = RunSettings.of(model={**sizes, **changes}, data={"max_length": 12, "name": "files"})
    torch.manual_seed(1)
    model: Any = build(settings.model)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.5)
    if not (folder / "model").exists():
        checkpoint.write(
            Checkpoint(settings, weights_of(model), {"joint": tokenizer}), folder / "model"
        )
    return gf.load(folder / "model", engine=engine, threads=1)


KINDS = {"bert": {"encoder"}, "marian": {"encoder", "decoder", "cross"}, "llama": {"decoder"}}


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_and_head_is_traced(name: str, tmp_path: Path) -> None:
    trace = gf.inspect(model_of(name, tmp_path), TEXT, name=name)
    assert trace.attention.keys() == KINDS[name]
    for kind, weights in trace.attention.items():
        rows, columns = trace.sides(kind)
        assert weights.shape == (2, 2, len(rows.ids), len(columns.ids))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert all(word.text for word in (*rows.words, *columns.words))
    again = Trace.from_json(trace.to_json())
    assert again.kind == trace.kind and again.attention.keys() == trace.attention.keys()
    assert "Inside a" in html_of(trace)
    drawn = dict(figures(trace))
    assert ("saliency" in drawn) == (name != "bert") and ("links" in drawn) == (name == "marian")
    drawn["heads"]()
    heads = gf.inspect_heads(model_of(name, tmp_path), [TEXT, "the cat"], progress=False)
    assert len(heads.heads) == 4 * len(KINDS[name])


def test_word_pieces_of_bert_are_merged_to_words(tmp_path: Path) -> None:
    read = gf.inspect(model_of("bert", tmp_path), TEXT).source
    assert read is not None
    assert read.tokens == ("[CLS]", "▁the", "▁cat", "s", "▁sat", "▁.", "[SEP]")
    assert [word.text for word in read.words] == ["the", "cats", "sat", "."]
    assert read.marks == {0, 6}


def test_a_language_model_without_a_begin_mark_begins_with_the_text(tmp_path: Path) -> None:
    trace = gf.inspect(model_of("llama", tmp_path), "the caté", "", beam_size=None)
    assert trace.target is not None and trace.decoder_input is not None
    assert trace.decoder_input.tokens == ("th", "e", "▁c", "a", "t", "<0xC3>", "<0xA9>")
    assert [word.text for word in trace.decoder_input.words][:1] == ["e"]
    assert trace.target.tokens[-1] == "<|end|>" and trace.target.text == "the caté"


@pytest.mark.parametrize("name", ["marian", "llama"])
def test_the_traced_search_is_that_of_the_engine(name: str, tmp_path: Path) -> None:
    trace = gf.inspect(model_of(name, tmp_path), "the cat", beam_size=2, max_length=9)
    assert trace.target is not None
    engine = model_of(name, tmp_path, "compiled")
    if name == "llama":
        found = engine.generate("the cat", beam_size=2, sample=False, max_length=9)
    else:
        found = engine.translate("the cat", 2, split=False, typeset=False, max_length=9)
    assert trace.target.text == found


def test_a_begin_mark_with_the_id_of_padding_is_attended_to(tmp_path: Path) -> None:
    """One pass over a forced output gives the probabilities of the search, step by step."""
    model = model_of("marian", tmp_path)
    source, target = model.inputs("the cat", "cats sat")
    assert int(target[0, 0]) == model.model.pad_id
    with torch.inference_mode():
        rows = model.model(source, target).log_softmax(-1)[0].numpy()
    decoding = model.decoders[0].start([source[0].tolist()], 1, 1, target.size(1))
    cached = decoding.prefill(target.numpy()).rows()[0]
    np.testing.assert_allclose(rows, cached, atol=1e-5)


@pytest.mark.parametrize(
    ("decoder", "piece", "shown"),
    [
        ({"type": "ByteLevel"}, "Ġdog", "▁dog"),
        ({"type": "ByteLevel"}, "Ã©", "é"),
        ({"type": "ByteLevel"}, "Ã", "<0xC3>"),
        ({"type": "ByteLevel"}, "日", "日"),
        ({"type": "WordPiece", "prefix": "##"}, "##ing", "ing"),
        ({"type": "WordPiece", "prefix": "##"}, "dog", "▁dog"),
        ({"type": "Sequence", "decoders": [{"type": "ByteLevel"}]}, "Ċ", "\n"),
        ({"type": "Metaspace"}, "▁dog", "▁dog"),
        (None, "dog", "▁dog"),
    ],
    ids=str,
)
def test_pieces_are_written_with_the_mark_of_a_space(decoder: Any, piece: str, shown: str) -> None:
    assert spelling_of(decoder)(piece) == shown
