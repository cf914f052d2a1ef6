"""A run that starts from another: its subwords and its encoder, and nothing else of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from glassformer.checkpoint import Checkpoint, find, read, weights_of, write
from glassformer.config import RunSettings
from glassformer.data.batch import IGNORE
from glassformer.data.prepare import Prepared, prepare
from glassformer.data.tokenizer import UNK
from glassformer.errors import CheckpointError, SettingsError
from glassformer.model.build import build
from glassformer.train import start as start_module
from glassformer.train.batches import reading
from glassformer.train.distributed import ALONE
from glassformer.train.loop import train
from glassformer.train.optimizer import build_optimizers
from glassformer.train.run import Run
from glassformer.train.start import start
from glassformer.train.state import restore
from glassformer.train.validate import validate
from glassformer.train.verify import verify_resume
from glassformer.train.votes import kind_of
from train.runs import (
    ON_FILES,
    PAIRS,
    TINY,
    assert_equal,
    assert_same_bits,
    curve,
    latest,
    parts_in_this_process,
    records,
    text,
    tiny,
    trained,
    unexpected,
)

MASKED: dict[str, Any] = {
    "model": {"kind": "masked-language-model"},
    "data": {"mask_rate": 0.2, "batch_tokens": 200},
}


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def masked(folder: Path, **sections: dict[str, Any]) -> Prepared:
    """Return the text of a masked language model: the English of PAIRS."""
    given = {name: MASKED.get(name, {}) | sections.get(name, {}) for name in ("model", "data")}
    return prepare(text(folder, **given, train=sections.get("train", {})), threads=1)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A run of a masked language model, whose best checkpoint is not its latest."""
    data = masked(tmp_path / "text", train={"max_steps": 4, "validate_every": 2, "ema": 0.5})
    trained(data, tmp_path / "words", evaluate=lambda model: {"loss": next(scores)})
    return tmp_path / "words"


scores = iter(range(10**6))  # the first validation is the best, whatever was learned


def settings_of(folder: Path, words: Path | None, kind: str, **model: Any) -> RunSettings:
    """A recipe that starts from `words`, with more words than those had."""
    place = None if words is None else str(words)
    if kind == "translator":
        return text(folder, model=model, train={"start_from": place, "max_steps": 6})
    for name in ("train", "valid"):
        rows = [f"{source} again\t{'eats' in source}\n" for source, _ in PAIRS]
        (folder / f"{name}.tsv").write_text("".join(rows))
    files = {name: [str(folder / f"{name}.tsv")] for name in ("train", "valid")}
    return ON_FILES.replace(
        model={"kind": kind, "vocab_size": 60, "dropout": 0.2, **model},
        data={"columns": ["1", "2"], "batch_tokens": 200, **files},
        train={"start_from": place, "max_steps": 6, "ema": 0.5},
    )


def data_of(folder: Path, words: Path | None, kind: str = "classifier", **model: Any) -> Prepared:
    """In the subwords of `words`, whose run it starts from."""
    tokenizers = read(find(words)).tokenizers if words else None
    return prepare(settings_of(folder, words, kind, **model), 1, tokenizers)


def begun(data: Prepared, folder: Path) -> Run:
    return start(data, folder, ALONE, False, unexpected)


def parts(weights: Any, encoder: bool) -> dict[str, torch.Tensor]:
    return {n: weights[n] for n in weights if n.startswith("encoder.") == encoder}


# A masked language model


def test_a_masked_language_model_learns(tmp_path: Path) -> None:
    """Every word of a text is the same, so that whichever is hidden can be told from the others."""
    words = sorted({word for source, _ in PAIRS for word in source.split()})
    for name in ("train", "valid"):
        (tmp_path / name).write_text("".join(f"{f'{word} ' * 5}\n" for word in words * 4))
    files = {name: [str(tmp_path / name)] for name in ("train", "valid")}
    settings = ON_FILES.replace(
        model={**MASKED["model"], "d_model": 32, "vocab_size": 80, "dropout": 0.0},
        data={"mask_rate": 0.3, "batch_tokens": 600, "valid_examples": 100, **files},
        train={"max_steps": 25, "learning_rate": 0.02, "warmup": 5, "validate_every": 25},
    )
    trained(prepare(settings, threads=1), tmp_path / "run")
    (record,) = records(tmp_path / "run", "valid_loss")
    assert record["valid_accuracy"] > 90 > 5 * 100 / len(words)
    assert curve(tmp_path / "run")[-1] < curve(tmp_path / "run")[0] / 2


def test_each_epoch_hides_anew_and_each_validation_the_same(tmp_path: Path) -> None:
    data = masked(tmp_path, data={"batch_tokens": 10_000})
    run = begun(data, tmp_path / "run")
    (first,), (second,) = (batches for batches, _ in zip(reading(run), range(2), strict=False))
    hidden = [batch.inputs[0] == UNK for batch in (first, second)]
    assert not torch.equal(*hidden) and all(h.any() for h in hidden)
    weights = weights_of(run.model)
    found = [validate(data.settings.model, weights, data.valid, 10_000, None) for _ in range(2)]
    assert found[0] == found[1]


def test_its_scores_are_torchs_over_what_is_hidden(tmp_path: Path) -> None:
    data = masked(tmp_path)
    model = build(data.settings.model).eval()
    batch = data.valid.batch(np.arange(len(data.valid)))
    logits, labels = model(*batch.inputs).flatten(0, 1), batch.labels.flatten()
    loss = F.cross_entropy(logits, labels, ignore_index=IGNORE).item()
    right = (logits.argmax(-1) == labels)[labels != IGNORE].double().mean()
    found = validate(data.settings.model, weights_of(model), data.valid, 10_000, None)
    assert_close(found["loss"], loss, rtol=1e-5, atol=0)
    assert_close(found["accuracy"], 100 * float(right))


@pytest.mark.parametrize("stop", [3, 5])
def test_what_is_hidden_is_the_same_when_a_run_goes_on(tmp_path: Path, stop: int) -> None:
    data = masked(tmp_path, model={"dropout": 0.2}, train={"max_steps": 8})
    trained(data, tmp_path / "whole")
    trained(data, tmp_path / "parts", stop=stop)
    trained(data, tmp_path / "parts", resume=True)
    assert_same_bits(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("seed", range(3))
def test_the_shortest_texts_and_the_least_share_are_no_failure(tmp_path: Path, seed: int) -> None:
    """A batch of one text from which chance hides nothing has nothing to learn from."""
    settings = {"mask_rate": 0.001, "batch_tokens": 1}
    data = masked(tmp_path, data=settings, train={"max_steps": 5, "seed": seed})
    _, reason = trained(data, tmp_path / "run")
    assert reason == "5 updates"


# What begins with it


@pytest.mark.parametrize("kind", ["classifier", "translator"])
def test_it_begins_with_exactly_that_encoder_and_those_subwords(
    tmp_path: Path, words: Path, kind: str
) -> None:
    data, best = data_of(tmp_path, words, kind), read(words / "best")
    run, fresh = begun(data, tmp_path / "run"), begun(alone(data), tmp_path / "alone")
    own, drawn = weights_of(run.model), weights_of(fresh.model)
    assert_equal(parts(own, True), parts(best.weights, True))
    assert_equal(parts(own, False), parts(drawn, False))
    assert parts(own, False) and not any(
        torch.equal(own[n], drawn[n]) for n in parts(own, True) if own[n].dim() == 2
    )
    assert data.tokenizers["joint"].fingerprint == best.tokenizers["joint"].fingerprint
    assert data.settings.model.vocab_size == best.settings.model.vocab_size
    if run.average is not None:  # which would otherwise remember what was drawn
        assert_equal(parts(run.average.weights, True), parts(best.weights, True))


def alone(data: Prepared) -> Prepared:
    """The same data for a run that starts from none."""
    settings = data.settings.replace(train={"start_from": None})
    return Prepared(settings, data.train, data.valid, data.valid_rows, data.tokenizers)


def test_another_checkpoint_than_the_best_can_be_named(tmp_path: Path, words: Path) -> None:
    data = data_of(tmp_path, words / "latest")
    own = weights_of(begun(data, tmp_path / "run").model)
    assert_equal(parts(own, True), parts(latest(words).weights, True))
    best = read(words / "best").weights
    assert any(not np.array_equal(own[name], best[name]) for name in parts(best, True))


def test_of_the_way_behind_it_nothing_is_taken_over(tmp_path: Path, words: Path) -> None:
    run = begun(data_of(tmp_path, words), tmp_path / "run")
    assert (run.position.step, run.position.labels, run.position.seconds) == (0, 0, 0.0)
    assert run.stopping.best is None
    assert all(not optimizer.state for optimizer in run.optimizers)


def test_it_learns_what_a_run_alone_would_not_have(tmp_path: Path, words: Path) -> None:
    data = data_of(tmp_path, words)
    trained(data, tmp_path / "run")
    trained(data, tmp_path / "again")
    trained(alone(data), tmp_path / "alone")
    assert_same_bits(tmp_path / "run", tmp_path / "again")
    assert curve(tmp_path / "run") != curve(tmp_path / "alone")
    assert latest(tmp_path / "run").settings.train.start_from == str(words)


@pytest.mark.parametrize("stop", [2, 4])
def test_resumed_it_goes_on_to_the_same_bits_and_adopts_nothing_again(
    tmp_path: Path, words: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    data = data_of(tmp_path, words)
    trained(data, tmp_path / "whole")
    trained(data, tmp_path / "parts", stop=stop)
    changed = read(words / "best")  # the other run has gone on in the meantime
    other = {name: tensor + 1 for name, tensor in changed.weights.items()}
    write(Checkpoint(changed.settings, other, changed.tokenizers), (words / "best").resolve())
    monkeypatch.setattr(start_module, "adopt_weights", lambda *_: pytest.fail("adopted again"))
    trained(data_of(tmp_path, words), tmp_path / "parts", resume=True)
    assert_same_bits(tmp_path / "parts", tmp_path / "whole")


def test_verify_resume_proves_it_of_such_a_run(tmp_path: Path, words: Path) -> None:
    err: list[str] = []
    with parts_in_this_process():
        verify_resume(settings_of(tmp_path, words, "classifier"), err.append)
    assert len(err) == 4 and "the same bits" in err[-1]


# What cannot begin with it


def test_an_encoder_of_another_shape_is_refused_before_anything_is_written(
    tmp_path: Path, words: Path
) -> None:
    with pytest.raises(CheckpointError, match="cannot begin with those weights") as caught:
        begun(data_of(tmp_path, words, d_model=16), tmp_path / "run")
    assert "(60, 8) there" in caught.value.what and "(60, 16)" in caught.value.why
    assert "train.start_from" in caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change", [{"n_heads": 4}, {"positions": "rope"}, {"feed_forward": "gelu"}], ids=str
)
def test_an_encoder_that_would_read_otherwise_is_refused(
    tmp_path: Path, words: Path, change: dict[str, Any]
) -> None:
    """No shape would tell."""
    ((name, value),) = change.items()
    with pytest.raises(SettingsError) as caught:
        begun(data_of(tmp_path, words, **change), tmp_path / "run")
    assert f"model.{name} = {value!r} does not go with train.start_from" in caught.value.what
    assert f"Set model.{name} = {json.dumps(getattr(TINY.model, name))}" in caught.value.remedy


def test_subwords_that_were_learned_otherwise_are_not_called_so(
    tmp_path: Path, words: Path
) -> None:
    settings = settings_of(tmp_path, words, "classifier").replace(data={"fold_case": True})
    data = prepare(settings, 1, read(find(words)).tokenizers)
    with pytest.raises(SettingsError, match=r"data\.fold_case = True does not go with"):
        begun(data, tmp_path / "run")


def test_subwords_of_ones_own_are_refused(tmp_path: Path, words: Path) -> None:
    """A vocabulary of the same size, and every row of the table would be another word's."""
    data = prepare(settings_of(tmp_path, words, "classifier"), 1)
    assert data.settings.model.vocab_size == read(words / "best").settings.model.vocab_size
    with pytest.raises(CheckpointError, match="subwords of the data are not those") as caught:
        begun(data, tmp_path / "run")
    assert "tokenizers" in caught.value.remedy


def test_a_model_without_an_encoder_has_nothing_to_begin_with(tmp_path: Path, words: Path) -> None:
    with pytest.raises(CheckpointError, match=r"decoder\.embedding\.weight is absent there"):
        begun(data_of(tmp_path, words, "language-model"), tmp_path / "run")


def test_a_run_that_is_gone_is_named(tmp_path: Path, words: Path) -> None:
    data = data_of(tmp_path, words)
    words.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError) as caught:
        begun(data, tmp_path / "run")
    assert str(words) in caught.value.what
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_is_not_begun_with(tmp_path: Path, words: Path) -> None:
    data = data_of(tmp_path, words)
    (words / "best" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(CheckpointError, match=r"is damaged: model\.safetensors"):
        train(begun(data, tmp_path / "run"))


# Votes of n-grams


def voting(folder: Path, **train: Any) -> Prepared:
    settings = settings_of(folder, None, "classifier", ngrams=2, ngram_buckets=2_000)
    return prepare(settings.replace(train={"start_from": None, **train}), 1)


def test_votes_are_fitted_before_training_and_told_and_training_leaves_them(tmp_path: Path) -> None:
    told: list[str] = []
    run = start(voting(tmp_path), tmp_path / "run", ALONE, False, told.append)
    assert told == ["votes of n-grams of up to 2 words are being counted"]
    assert run.votes is not None
    fitted = run.votes.weight.copy()
    assert np.abs(fitted).max() > 0
    train(run)
    assert np.array_equal(run.votes.weight, fitted)
    assert np.array_equal(latest(tmp_path / "run").weights["votes.weight"], fitted)


def test_votes_know_the_words_of_the_subwords(tmp_path: Path) -> None:
    data = voting(tmp_path)
    votes = start(data, tmp_path / "run", ALONE, False, lambda _: None).votes
    assert votes is not None
    pieces = data.tokenizers["joint"].pieces(range(len(votes.kinds)))
    assert votes.kinds.tolist() == [kind_of(piece) for piece in pieces]
    assert len(np.unique(votes.kinds)) == 3


def test_votes_are_not_begun_with_but_counted_anew(tmp_path: Path) -> None:
    train(start(voting(tmp_path, max_steps=2), tmp_path / "one", ALONE, False, lambda _: None))
    one = latest(tmp_path / "one").weights
    settings = voting(tmp_path, start_from=str(tmp_path / "one"), max_steps=2).settings
    larger = prepare(settings.replace(model={"ngram_buckets": 3_000}), 1)
    run = start(larger, tmp_path / "two", ALONE, False, lambda _: None)
    assert run.votes is not None
    assert run.votes.weight.shape[1] == one["votes.weight"].shape[1] + 1_000
    assert np.abs(run.votes.weight).max() > 0
    adopted = weights_of(run.model.encoder)
    assert all(np.array_equal(adopted[name], one[f"encoder.{name}"]) for name in adopted)


def test_a_resumed_run_keeps_its_votes_and_counts_none(tmp_path: Path) -> None:
    start_told: list[str] = []
    train(start(voting(tmp_path, max_steps=2), tmp_path / "run", ALONE, False, start_told.append))
    again = start(voting(tmp_path), tmp_path / "run", ALONE, True, unexpected)
    assert again.votes is not None
    assert np.array_equal(again.votes.weight, latest(tmp_path / "run").weights["votes.weight"])


def test_validation_asks_for_both_opinions(tmp_path: Path) -> None:
    data = voting(tmp_path)
    run = start(data, tmp_path / "run", ALONE, False, lambda _: None)
    batch = data.valid.batch(np.arange(len(data.valid)))
    (ids,) = batch.inputs
    assert run.votes is not None
    ngrams = torch.from_numpy(run.votes.of_rows(row[row != 0].numpy() for row in ids))
    with torch.no_grad():
        own = run.model.eval()(ids)
    share = data.settings.model.ngram_share
    logits = (1 - share) * own + share * ngrams
    scores = validate(
        data.settings.model, weights_of(run.model), data.valid, 100, None, votes=run.votes
    )
    assert scores["loss"] == pytest.approx(F.cross_entropy(logits, batch.labels).item(), rel=1e-5)
    opinions = {"": logits, "encoder_": own, "ngrams_": ngrams}
    for name, opinion in opinions.items():
        right = (opinion.argmax(-1) == batch.labels).double().mean().item()
        assert scores[f"{name}accuracy"] == pytest.approx(100 * right)


def test_a_run_that_averaged_its_constant_votes_goes_on(tmp_path: Path) -> None:
    """Runs of version 0.1 with `train.ema` have the votes among their raw weights."""
    data = voting(tmp_path, ema=0.9, max_steps=2)
    train(start(data, tmp_path / "run", ALONE, False, lambda _: None))
    state = latest(tmp_path / "run").training
    assert state is not None
    model = build(data.settings.model)
    optimizers = build_optimizers(model, "adamw", 1.0, 1.0, 0.0, (0.9, 0.98), None)
    state.tensors["raw/votes.weight"] = np.zeros((2, 3), np.float32)
    assert restore(state, model, optimizers).step == 2


def test_a_run_does_not_go_on_with_longer_ngrams(tmp_path: Path) -> None:
    train(start(voting(tmp_path, max_steps=2), tmp_path / "run", ALONE, False, lambda _: None))
    longer = prepare(voting(tmp_path).settings.replace(model={"ngrams": 3}), 1)
    with pytest.raises(CheckpointError, match=r"model\.ngrams = 3, and was 2"):
        start(longer, tmp_path / "run", ALONE, True, unexpected)


def test_muon_and_shards_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"train\.fully_shard = true") as caught:
        trained(tiny(train={"fully_shard": True, "optimizer": "muon"}), tmp_path)
    assert "whole matrices" in caught.value.why and "'adamw'" in caught.value.remedy
