"""Settings that do not go together are refused before any text is read."""

import pytest

from glassformer.config import RunSettings
from glassformer.data.check import check
from glassformer.errors import SettingsError

CLASSIFIER = {"kind": "classifier"}
FILES = {"name": "files", "train": ["a.en", "a.fr"], "valid": ["b.en", "b.fr"]}

PLACE = {"name": "a", "files": ["a.en", "a.fr"]}
MIXTURE = {"name": "mixture", "sources": [PLACE | {"weight": 1}], "valid_sets": [PLACE]}
EXACT = {"byte_fallback": True, "normalization": "identity"}


@pytest.mark.parametrize(
    ("setting", "sections"),
    [
        ("data.train", {"data": {"train": ["a.en", "a.fr"]}}),
        ("data.valid", {"data": {"name": "multi30k", "valid": ["a.en", "a.fr"]}}),
        ("data.columns", {"data": {"name": "imdb", "columns": ["text", "label"]}}),
        ("data.train_split", {"data": FILES | {"train_split": "valid"}}),
        ("data.final", {"data": {"name": "multi30k", "final": ["a.en", "a.fr"]}}),
        ("data.final_split", {"data": FILES | {"final_split": "later"}}),
        ("data.final_share", {"data": {"name": "multi30k", "final_share": 0.2}}),
        ("data.final_share", {"data": FILES | {"final_share": 0.2}}),
        (
            "data.final_split",
            {"data": {"name": "imdb", "final_split": "unsup"}, "model": CLASSIFIER},
        ),
        ("data.source_language", {"data": {"source_language": "fr", "target_language": "en"}}),
        ("data.examples", {"data": {"name": "multi30k", "examples": 500}}),
        ("data.symbols", {"data": {"symbols": 5}}),
        ("data.mask_rate", {"data": {"name": "copy", "mask_rate": 0.5}}),
        ("data.max_length", {"data": {"name": "copy", "max_length": 4}}),
        ("languages", {"data": {"name": "multi30k", "source_language": "de"}, "model": CLASSIFIER}),
        ("data.train_split", {"data": {"name": "multi30k"}, "model": CLASSIFIER}),
        (
            "data.train_split",
            {"data": {"name": "imdb", "train_split": "unsup"}, "model": CLASSIFIER},
        ),
        ("model.pad_id", {"model": {"pad_id": 5}}),
        ("model.source_vocab_size", {"model": {"source_vocab_size": 200}}),
        ("model.max_positions", {"model": {"positions": "learned", "max_positions": 256}}),
        (
            "model.max_positions",
            {"data": {"name": "copy"}, "model": {"positions": "learned", "max_positions": 32}},
        ),
        ("data.sources", {"data": {"name": "multi30k", "sources": MIXTURE["sources"]}}),
        ("data.sources", {"data": MIXTURE | {"sources": MIXTURE["sources"] * 2}}),
        ("data.sources", {"data": MIXTURE | {"sources": []}}),
        ("data.valid_sets", {"data": MIXTURE | {"valid_sets": []}}),
        ("data.epoch_tokens", {"data": {"epoch_tokens": 10}}),
        ("data.subword_sampling", {"data": MIXTURE | {"subword_sampling": 0.1}}),
        ("model.kind", {"data": MIXTURE, "model": CLASSIFIER}),
        ("data.directions", {"data": {"name": "copy", "directions": "both"}}),
        ("data.directions", {"data": {"directions": "both", "joint_vocabulary": False}}),
        ("data.directions", {"data": {"directions": "both"}, "model": {"kind": "language-model"}}),
        ("data.noise", {"data": {"noise": {"lower": 0.1}}}),
        ("data.noise", {"data": EXACT | {"noise": {"lower": 0.1}, "subword_sampling": 0.1}}),
        ("data.clean", {"data": {"clean": True}}),
        ("data.clean", {"data": FILES | {"clean": True}, "model": {"kind": "language-model"}}),
        ("train.r_drop", {"model": {"dropout": 0.0}, "train": {"r_drop": 5.0}}),
    ],
)
def test_what_would_be_passed_over_or_mean_something_else_is_refused(setting, sections):
    with pytest.raises(SettingsError) as caught:
        check(RunSettings().replace(**sections))
    assert setting in caught.value.what


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"data": FILES | {"columns": ["1"], "source_language": "de"}},
        {"data": {"name": "multi30k", "target_language": "de"}},
        {"data": {"name": "imdb", "train_split": "train-and-valid"}, "model": CLASSIFIER},
        {"data": {"name": "imdb", "final_split": "train", "final_share": 0.2}, "model": CLASSIFIER},
        {"data": FILES | {"final": ["c.en", "c.fr"], "final_share": 0.2}},
        {"data": {"joint_vocabulary": False}, "model": {"source_vocab_size": 200}},
        {"model": {"positions": "learned", "max_positions": 257}},
        {"data": MIXTURE | EXACT | {"directions": "both", "noise": {"lower": 0.1}, "clean": True}},
        {"data": EXACT | {"name": "multi30k", "noise": {"joined": 0.1}, "directions": "both"}},
        {"data": {"name": "copy", "longest": 8}, "model": {"kind": "tagger"}},
        {"model": {"dropout": 0.0, "attention_dropout": 0.1}, "train": {"r_drop": 5.0}},
    ],
)
def test_what_goes_together_passes(sections):
    check(RunSettings().replace(**sections))
