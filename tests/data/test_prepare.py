"""Settings to examples: made once, made anew when anything changes, and nothing lost unsaid."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config import RunSettings
from glassformer.data import datasets, grammar, prepare, store, tasks
from glassformer.data.corpus import TextFiles
from glassformer.data.kinds import KINDS
from glassformer.data.prepare import Prepared
from glassformer.data.tokenizer import PAD, UNK, Tokenizer
from glassformer.errors import DataError, GlassformerError, SettingsError
from glassformer.model.build import build

ENGLISH = ["a dog", "the old cat", "a child"], ["sees", "wants", "hears"], ["a house", "the tea"]
FRENCH = (
    ["un chien", "le vieux chat", "un enfant"],
    ["voit", "veut", "entend"],
    ["une maison", "le thé"],
)
PAIRS = [
    (" ".join(e), " ".join(f)) for e, f in zip(product(*ENGLISH), product(*FRENCH), strict=True)
]
TRAIN, VALID = PAIRS[3:], PAIRS[:3]
MASKED = "masked-language-model"
LABELLED = [(text, ["good", "bad", "awful"][i % 3]) for i, (text, _) in enumerate(TRAIN)]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> Path:
    """A place for text, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    return tmp_path


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "glassformer" / "prepared").iterdir())


def write_sides(folder: Path, name: str, rows) -> list[str]:
    paths = [folder / f"{name}.{side}" for side in range(len(rows[0]))]
    for path, column in zip(paths, zip(*rows, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in column))
    return [str(path) for path in paths]


def write_table(folder: Path, name: str, rows) -> list[str]:
    (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return [str(folder / f"{name}.tsv")]


def settings_for(
    folder: Path, kind: str = "translator", train=TRAIN, valid=VALID, **data
) -> RunSettings:
    """Settings to learn from files, which are written first: a table, or a file per side."""
    write = write_sides
    if "language-model" in kind:
        train, valid = ([row[:1] for row in rows] for rows in (train, valid))
    if kind == "classifier":
        write, data = write_table, {"columns": ["1", "2"], **data}
    paths = {"train": write(folder, "train", train), "valid": write(folder, "valid", valid)}
    model = {"kind": kind, "vocab_size": data.pop("vocab_size", 60)}
    return RunSettings.of(model=model, data={"name": "files", **paths, **data})


def prepared(folder: Path, **options) -> Prepared:
    return prepare.prepare(settings_for(folder, **options))


def texts(made: Prepared, split: str = "train") -> list[tuple[str, ...]]:
    """The text of all the examples, decoded."""
    examples = getattr(made, split)
    by_side = [
        made.tokenizers.get("joint") or made.tokenizers[s]
        for s in ("source", "target")[: len(examples.sides)]
    ]
    return [
        tuple(t.decode(side[i]) for t, side in zip(by_side, examples.sides, strict=True))
        for i in range(len(examples))
    ]


def arrays(made: Prepared) -> list[list[int]]:
    sides = [side for examples in (made.train, made.valid) for side in examples.sides]
    return [array.tolist() for side in sides for array in (side.flat, side.offsets)]


def refusal(error: type[GlassformerError], settings: RunSettings) -> GlassformerError:
    with pytest.raises(error) as caught:
        prepare.prepare(settings)
    return caught.value


def test_a_translator_gets_pairs_in_one_vocabulary(folder):
    made = prepared(folder)
    assert texts(made) == TRAIN and texts(made, "valid") == VALID
    assert made.valid_rows == VALID
    assert list(made.tokenizers) == ["joint"]
    assert made.settings.model.vocab_size == len(made.tokenizers["joint"])
    assert UNK not in {*made.train.sides[0].flat, *made.train.sides[1].flat}
    assert made.lost.left_out == 0
    assert made.train.kind == made.valid.kind == "translator"


def test_a_translator_gets_pairs_in_a_vocabulary_per_side(folder):
    made = prepared(folder, joint_vocabulary=False, vocab_size=50)
    assert texts(made) == TRAIN and texts(made, "valid") == VALID
    source, target = made.tokenizers["source"], made.tokenizers["target"]
    model = made.settings.model
    assert (model.source_vocab_size, model.vocab_size) == (len(source), len(target))
    assert UNK in target.encode(["wax"])[0], "the target's has never seen an English w"
    assert UNK not in source.encode(["w"])[0]
    built = build(model)
    assert built.encoder.embedding.weight.size(0) == len(source)
    assert built.output.out_features == len(target)


def test_the_sides_may_have_vocabularies_of_different_sizes(folder):
    settings = settings_for(folder, joint_vocabulary=False, vocab_size=50)
    made = prepare.prepare(settings.replace(model={"source_vocab_size": 30}))
    assert len(made.tokenizers["source"]) == 30
    assert len(made.tokenizers["target"]) == 50


def test_a_classifier_finds_its_labels_and_sorts_them(folder):
    made = prepared(folder, kind="classifier", train=LABELLED, valid=LABELLED[:4])
    labels = made.settings.data.labels
    assert labels == ("awful", "bad", "good")
    assert made.settings.model.n_classes == 3
    text, label = made.train.sides
    tokenizer = made.tokenizers["joint"]
    assert [
        (tokenizer.decode(text[i]), labels[int(label[i][0])]) for i in range(len(made.train))
    ] == LABELLED
    assert len(made.valid) == 4
    assert UNK in tokenizer.encode(["f"])[0], "labels are no text: no f of awful was learned"


def test_a_language_model_gets_one_text(folder):
    lines = [(text,) for pair in TRAIN for text in pair]
    made = prepared(folder, kind="language-model", train=lines, valid=lines[:2])
    assert texts(made) == lines
    assert made.train.kind == "language-model"


def test_a_masked_language_model_gets_one_text_of_which_a_share_is_hidden(folder):
    lines = [(text,) for pair in TRAIN for text in pair]
    made = prepared(folder, kind=MASKED, train=lines, valid=lines[:2], hidden=0.3)
    assert texts(made) == lines and texts(made, "valid") == lines[:2]
    assert made.train.kind == made.valid.kind == MASKED
    assert made.train.hidden == made.valid.hidden == 0.3
    assert made.settings.model.vocab_size == len(made.tokenizers["joint"])


def test_of_a_table_a_masked_language_model_reads_the_text_only(folder):
    """A set with labels serves to learn words from, too."""
    data = {"name": "files", "columns": ["1", "2"], "hidden": 0.3}
    paths = {s: write_table(folder, s, LABELLED) for s in ("train", "valid")}
    model = {"kind": MASKED, "vocab_size": 60}
    made = prepare.prepare(RunSettings.of(model=model, data={**data, **paths}))
    assert texts(made) == [(text,) for text, _ in LABELLED]
    assert made.settings.data.labels == ()


@pytest.mark.parametrize("task", tasks.TASKS)
@pytest.mark.parametrize("kind", ["tagger", "translator"])
def test_a_task_is_generated_without_text(folder, task, kind):
    made = prepare.prepare(
        RunSettings.of(
            model={"kind": kind},
            data={"name": task, "examples": 30, "valid_examples": 7, "symbols": 5, "longest": 6},
        )
    )
    assert (len(made.train), len(made.valid)) == (30, 7)
    for seed, examples in enumerate((made.train, made.valid)):
        source, target = examples.sides
        for i in range(len(examples)):
            asked, labels = tasks.example(task, seed, i, 5, (2, 6))
            if kind == "translator":
                labels = [label for label in labels if label != PAD]
            assert (source[i].tolist(), target[i].tolist()) == (asked, labels)
    assert made.settings.model.vocab_size == made.settings.model.n_classes == tasks.FIRST + 5
    assert (made.tokenizers, made.valid_rows, made.lost.left_out) == ({}, [], 0)
    assert not (folder / "cache").exists()


@pytest.mark.parametrize("kind", ["language-model", MASKED])
def test_of_the_grammar_one_language_can_be_read(folder, kind):
    data = {"name": "grammar", "examples": 120, "valid_examples": 8, "hidden": 0.2}
    made = prepare.prepare(RunSettings.of(model={"kind": kind, "vocab_size": 200}, data=data))
    assert texts(made) == [(p.source,) for p in grammar.pairs("train", 120)]


def test_the_grammar_needs_no_files(folder):
    made = prepare.prepare(
        RunSettings.of(
            model={"vocab_size": 200},
            data={"name": "grammar", "examples": 120, "valid_examples": 8},
        )
    )
    assert texts(made) == [(p.source, p.target) for p in grammar.pairs("train", 120)]
    assert made.valid_rows == [(p.source, p.target) for p in grammar.pairs("valid", 8)]


@pytest.mark.parametrize(
    ("kind", "name", "languages"),
    [
        ("translator", "some-set", ("de", "en")),
        ("classifier", "imdb", ()),
        ("language-model", "some-set", ()),
        (MASKED, "some-set", ()),
    ],
)
def test_any_other_name_is_a_named_set(folder, monkeypatch, kind, name, languages):
    rows = LABELLED if kind == "classifier" else TRAIN
    (path,) = write_table(folder, "named", rows)
    asked = []

    def find(*request):
        asked.append(request)
        return TextFiles((Path(path),), (1, 2))

    monkeypatch.setattr(datasets, "find", find)
    chosen = dict(zip(("source_language", "target_language"), languages, strict=False))
    data = {"name": name, "hidden": 0.2, **chosen}
    settings = RunSettings.of(model={"kind": kind, "vocab_size": 60}, data=data)
    made = prepare.prepare(settings)
    assert set(asked) == {(name, split, languages) for split in ("train", "valid")}
    assert len(made.train) == len(rows)
    asked.clear()
    prepare.prepare(settings.replace(data={"train_split": "more", "final_split": "best"}))
    assert set(asked) == {(name, split, languages) for split in ("more", "valid", "best")}


def test_the_final_text_has_the_subwords_of_the_training_text(folder):
    final = [("a dog sees a zebu", "un chien voit un zébu"), *TRAIN[:2]]
    files = write_sides(folder, "final", final)
    made, without = prepared(folder, final=files, max_length=30), prepared(folder, max_length=30)
    assert texts(made, "final")[1:] == TRAIN[:2] and len(made.final) == 3
    assert made.tokenizers["joint"].fingerprint == without.tokenizers["joint"].fingerprint
    assert arrays(made) == arrays(without) and without.final is None
    long = write_sides(folder, "long", [(" ".join(["a dog"] * 20), "un chien")])
    error = refusal(DataError, settings_for(folder, final=long, max_length=30))
    assert error.what == "No example to end on is left." and "30 subwords" in error.why


def test_losses_of_the_final_text_are_reported(folder):
    long, empty = (" ".join(["a dog"] * 20), "un chien"), ("a", " ")
    files = write_sides(folder, "final", [long, *TRAIN, empty])
    made = prepared(folder, final=files, max_length=30, skip_bad=True)
    assert made.final_lost.left_out == 1 and "1 bad (empty: 1)" in made.final_lost.bad_rows
    assert (made.lost.left_out, made.lost.bad_rows) == (0, "")


def test_a_final_text_has_the_labels_of_the_first(folder):
    final = write_table(folder, "final", [("a dog", "good"), ("a cat", "superb")])
    options = {"kind": "classifier", "train": LABELLED, "valid": LABELLED[:3], "final": final}
    error = refusal(DataError, settings_for(folder, **options))
    assert f"{final[0]}:2: unknown label" in error.why


def test_a_split_that_a_set_does_not_have_is_answered_with_the_nearest(folder):
    data = {"name": "imdb", "train_split": "unsupp", "hidden": 0.2}
    error = refusal(DataError, RunSettings.of(model={"kind": MASKED}, data=data))
    assert "split of imdb called 'unsupp'" in error.what and "'unsup'" in error.remedy


def test_validation_reads_at_most_valid_examples(folder):
    made = prepared(folder, valid=PAIRS, valid_examples=5)
    assert len(made.valid) == 5
    assert made.valid_rows == PAIRS[:5]


# What is kept


@pytest.mark.parametrize(
    "options", [{}, {"joint_vocabulary": False}, {"subword_sampling": 0.2}], ids=str
)
def test_a_second_preparation_reads_the_cache(folder, monkeypatch, options):
    first = prepared(folder, **options)

    def busy(*_, **__):
        raise AssertionError("tokenised again")

    for work in ("encode", "train"):
        monkeypatch.setattr(Tokenizer, work, busy)
    second = prepared(folder, **options)
    assert arrays(second) == arrays(first)
    assert second.settings == first.settings
    assert second.lost == first.lost
    assert second.valid_rows == first.valid_rows
    assert all(isinstance(side.flat, np.memmap) for side in second.train.sides)


@pytest.mark.parametrize(
    "change",
    [
        {"train": TRAIN[::-1]},
        {"valid": VALID[::-1]},
        {"valid_examples": 2},
        {"max_length": 11},
        {"subwords": "unigram"},
        {"vocab_size": 45},
        {"joint_vocabulary": False, "vocab_size": 50},
        {"kind": "language-model"},
    ],
    ids=str,
)
def test_a_changed_text_is_prepared_again(folder, monkeypatch, change):
    """As anew as with an empty cache."""
    before = prepared(folder)
    after = prepared(folder, **change)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "empty"))
    expected = prepared(folder, **change)
    assert arrays(after) == arrays(expected) != arrays(before)
    assert after.settings == expected.settings


def test_folded_text_has_its_own_cache(folder):
    rows = [(source.title(), target.upper()) for source, target in TRAIN]
    plain, folded = (prepared(folder, train=rows, fold_case=fold) for fold in (False, True))
    assert texts(plain) == rows and texts(folded) == TRAIN
    assert texts(prepared(folder, train=rows)) == rows


def test_masks_are_drawn_per_batch_and_not_cached(folder):
    lines = [(text,) for text, _ in TRAIN]
    first = prepared(folder, kind=MASKED, train=lines, valid=lines[:2], hidden=0.2)
    before = kept(folder)
    second = prepared(folder, kind=MASKED, train=lines, valid=lines[:2], hidden=0.6)
    assert kept(folder) == before and arrays(first) == arrays(second)
    assert second.train.hidden == 0.6


def test_given_subwords_are_used(folder, monkeypatch):
    other = Tokenizer.train(["the quick brown fox " * 3] * 9, 30)
    monkeypatch.setattr(Tokenizer, "train", lambda *_, **__: pytest.fail("learned its own"))
    settings = settings_for(folder, kind="classifier", train=LABELLED, valid=LABELLED[:4])
    made = prepare.prepare(settings, tokenizers={"joint": other})
    assert made.tokenizers == {"joint": other}
    assert made.settings.model.vocab_size == len(other) != settings.model.vocab_size
    text = made.train.sides[0]
    assert [text[i].tolist() for i in range(4)] == other.encode([row[0] for row in LABELLED[:4]])
    assert made.settings.data.labels == ("awful", "bad", "good")


def test_other_columns_of_the_same_file_are_another_text(folder):
    settings = settings_for(folder, train=TRAIN)
    table = {"train": write_table(folder, "t", TRAIN), "valid": write_table(folder, "v", VALID)}
    for columns, expected in (["1", "2"], TRAIN), (["2", "1"], [pair[::-1] for pair in TRAIN]):
        made = prepare.prepare(settings.replace(data={**table, "columns": columns}))
        assert texts(made) == expected


def test_the_same_bytes_in_another_format_are_another_text(folder):
    rows = [(f"{a}, {b}", b) for a, b in TRAIN]
    valid = write_table(folder, "valid", VALID)
    settings = settings_for(folder, columns=["1", "2"]).replace(data={"valid": valid})
    paths = write_table(folder, "train", rows)
    made = prepare.prepare(settings.replace(data={"train": paths}))
    assert texts(made) == rows
    renamed = Path(paths[0]).rename(folder / "train.csv")
    made = prepare.prepare(settings.replace(data={"train": [str(renamed)]}))
    assert texts(made)[0] == (TRAIN[0][0], f"{TRAIN[0][1]} {TRAIN[0][1]}")


def test_a_bad_row_skipped_once_is_not_skipped_for_good(folder):
    settings = settings_for(folder, train=[*TRAIN, ("a dog", "")], skip_bad=True)
    assert texts(prepare.prepare(settings)) == TRAIN
    refusal(DataError, settings.replace(data={"skip_bad": False}))


@pytest.mark.parametrize("work", ["train", "encode"])
def test_an_interrupted_preparation_is_repeated(folder, monkeypatch, work):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Tokenizer, work, killed)
        prepared(folder)
    whole = [path for path in kept(folder) if not path.name.startswith(".")]
    assert len(whole) == (work == "encode"), "of two steps, what was finished before"
    assert texts(prepared(folder)) == TRAIN
    assert not [path for path in kept(folder) if path.name.startswith(".")]


def test_an_incomplete_folder_has_another_name(folder):
    seen = []

    def make(place):
        seen.append(place)
        (place / "half").touch()
        raise OSError

    with pytest.raises(OSError):
        store.cached("something", make)
    whole = store.cached("something", lambda place: (place / "whole").touch())
    assert seen[0] != whole
    assert [path.name for path in whole.iterdir()] == ["whole"]
    assert store.cached("something", make) == whole and len(seen) == 1


def test_two_processes_that_prepare_the_same_text_both_succeed(folder, monkeypatch):
    pids = iter([1, 2])
    monkeypatch.setattr(store.os, "getpid", lambda: next(pids))

    def make(place):
        (place / "part").touch()
        if place.name.endswith("-1"):  # slower than the other one
            store.cached("something", make)

    whole = store.cached("something", make)
    assert kept(folder) == [whole]


# What does not fit


LONG = [" ".join(side) for side in zip(*TRAIN[:4], strict=True)]
UNEVEN = [TRAIN[0], (LONG[0], "un chien"), *TRAIN[1:9], ("a dog", LONG[1]), *TRAIN[9:]]
LIMIT = 30  # subwords: between the longest of TRAIN and the shorter of LONG


def test_pairs_too_long_on_either_side_are_left_out_and_counted(folder, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 4)  # several chunks, and one that is not full
    made = prepared(folder, train=UNEVEN, max_length=LIMIT)
    assert texts(made) == TRAIN
    assert made.lost.left_out == 2
    assert texts(prepared(folder, train=UNEVEN)) == UNEVEN


@pytest.mark.parametrize("kind", ["classifier", "language-model"])
def test_texts_too_long_are_cut(folder, kind):
    rows = LABELLED if kind == "classifier" else [(text,) for text, _ in TRAIN]
    whole, made = (
        prepared(folder, kind=kind, train=rows, valid=rows, max_length=n) for n in (256, 4)
    )
    text, cut = whole.train.sides[0], made.train.sides[0]
    assert [cut[i].tolist() for i in range(len(cut))] == [
        text[i][:4].tolist() for i in range(len(text))
    ]
    assert len(made.train) == len(rows) and made.lost.left_out == 0
    assert cut.lengths.max() == 4 < text.lengths.max()


@pytest.mark.parametrize("kind", ["classifier", "language-model", MASKED])
def test_texts_that_are_cut_are_counted(folder, kind):
    """Examples of exactly the limit count too: they do not show whether text followed."""
    options = {"hidden": 0.2} if kind == MASKED else {}
    rows = LABELLED if kind == "classifier" else TRAIN
    options |= {"kind": kind, "train": rows, "valid": rows[:5]}
    lengths = prepared(folder, **options).train.sides[0].lengths
    limit = int(np.median(lengths))
    for _ in ("made", "found in the cache"):
        made = prepared(folder, **options, max_length=limit)
        expected = [
            0 if kind == MASKED else int((n >= limit).sum()) for n in (lengths, lengths[:5])
        ]
        assert [made.lost.cut, made.valid_lost.cut] == expected
        assert made.lost.left_out == made.valid_lost.left_out == 0
    assert prepared(folder, **options).lost.cut == 0


@given(length=st.integers(0, 60), longest=st.integers(1, 20))
@settings(deadline=None)
def test_a_long_text_is_split_into_the_fewest_pieces_of_about_equal_length(length, longest):
    (pieces,), kept = KINDS["masked-language-model"].fit([[list(range(length))]], longest)
    assert kept == list(range(len(pieces)))
    lengths = [len(piece) for piece in pieces]
    assert all(1 <= n <= longest for n in lengths)
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
    assert [i for piece in pieces for i in piece] == list(range(length))
    assert len(pieces) == -(-length // longest)


def test_a_masked_language_model_reads_long_texts_to_their_end(folder, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 4)
    rows = [(text,) for text, _ in [*TRAIN, (LONG[0] * 3, "")]]
    options = {"kind": MASKED, "train": rows, "valid": rows, "hidden": 0.2}
    whole, cut = (prepared(folder, **options, max_length=n) for n in (256, 8))
    assert len(whole.train) == len(rows) < len(cut.train)
    assert cut.train.sides[0].flat.tolist() == whole.train.sides[0].flat.tolist()
    assert cut.train.sides[0].lengths.max() <= 8 and cut.lost.left_out == 0
    assert cut.valid.sides[0].flat.tolist() == whole.valid.sides[0].flat.tolist()


@pytest.mark.parametrize("joint", [True, False])
def test_validation_rows_are_those_of_the_examples(folder, joint):
    """A score of what is err and the loss are of the same pairs, and no text is refused later."""
    options = {"joint_vocabulary": joint, "vocab_size": 60 if joint else 40}
    made = prepared(folder, valid=UNEVEN[:11], max_length=LIMIT, **options)
    assert made.valid_rows == texts(made, "valid") == TRAIN[:9]
    assert made.valid_lost.left_out == 2 and made.lost.left_out == 0


def test_when_every_pair_is_too_long_the_limit_is_named(folder):
    error = refusal(DataError, settings_for(folder, max_length=1))
    assert "max_length" in str(error)


@pytest.mark.parametrize(("size", "width"), [(2**16, "uint16"), (2**16 + 1, "int32")])
def test_ids_are_kept_as_narrow_as_the_vocabulary_allows(folder, monkeypatch, size, width):
    monkeypatch.setattr(Tokenizer, "__len__", lambda _: size)
    made = prepared(folder)
    assert {side.flat.dtype.name for side in made.train.sides} == {width}
    assert texts(made) == TRAIN


# Subwords drawn anew


def drawn(made: Prepared, split: str = "train", seed: int = 1) -> list[list[list[int]]]:
    """Return the tokens that a model would read of all examples, by side."""
    examples = getattr(made, split).drawn(seed)
    return [x.tolist() for x in examples.batch(np.arange(len(examples))).inputs]


def drawn_texts(made: Prepared, seed: int = 1) -> list[tuple[str, ...]]:
    decode = made.tokenizers["joint"].decode
    return [tuple(map(decode, row)) for row in zip(*drawn(made, seed=seed), strict=True)]


@pytest.mark.parametrize(("subwords", "size"), [("bpe", 60), ("unigram", 40)])
def test_training_subwords_are_drawn_by_seed_and_spell_the_text(folder, subwords, size):
    made = prepared(folder, subwords=subwords, vocab_size=size, subword_sampling=0.3)
    draws = [drawn(made, seed=seed) for seed in range(5)]
    assert drawn(made, seed=3) == draws[3]
    assert len({str(draw) for draw in draws}) == 5
    assert all(drawn_texts(made, seed) == TRAIN for seed in range(5))


def test_a_draw_longer_than_the_limit_cuts_no_pair_short(folder):
    limit = int(prepared(folder).train.lengths.max()) - 1
    made = prepared(folder, max_length=limit, subword_sampling=0.9)
    assert drawn_texts(made) == TRAIN


def test_validation_subwords_are_never_drawn(folder):
    plain, sampled = prepared(folder), prepared(folder, subword_sampling=0.5)
    assert sampled.valid.redraw is None
    assert drawn(sampled, "valid", 1) == drawn(sampled, "valid", 2) == drawn(plain, "valid", 0)


def test_the_labels_of_drawn_texts_stay(folder):
    made = prepared(
        folder, kind="classifier", train=LABELLED, valid=LABELLED[:2], subword_sampling=0.5
    )
    rows = np.array([4, 0, 7])
    labels = made.train.drawn(1).batch(rows).labels.tolist()
    assert [made.settings.data.labels[i] for i in labels] == [LABELLED[i][1] for i in rows]


def test_what_is_left_out_is_never_drawn(folder):
    """Text and ids are kept apart, and must stay side by side."""
    made = prepared(folder, train=UNEVEN, max_length=LIMIT, subword_sampling=0.01)
    assert drawn_texts(made) == TRAIN


def test_the_sides_are_sampled_independently(folder):
    made = prepared(folder, train=[(text, text) for text, _ in TRAIN], subword_sampling=0.5)
    source, target = made.train.drawn(1).sides
    assert source.flat.tolist() != target.flat.tolist()


# Subwords hidden


@pytest.mark.parametrize("kind", ["translator", "classifier", "language-model"])
@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_models_other_than_masked_ones_are_masked_in_training_only(folder, kind, sampling):
    rows = {"translator": TRAIN, "classifier": LABELLED, "language-model": [p[:1] for p in TRAIN]}
    options = {"kind": kind, "train": rows[kind], "valid": rows[kind][:3]}
    plain = prepared(folder, **options)
    hidden = prepared(folder, **options, hidden=0.5, subword_sampling=sampling)
    assert (hidden.train.hidden, hidden.valid.hidden) == (0.5, 0.0)
    assert drawn(hidden, "valid", 1) == drawn(hidden, "valid", 2) == drawn(plain, "valid")
    assert all(UNK in np.ravel(side) for side in drawn(hidden))
    assert all(UNK not in np.ravel(side) for side in drawn(plain))


def test_a_masked_language_model_is_validated_with_a_fixed_mask(folder):
    lines = [(text,) for text, _ in TRAIN]
    first, again = (
        prepared(folder, kind=MASKED, train=lines, valid=lines[:3], hidden=0.3).valid
        for _ in range(2)
    )
    batches = [examples.batch(np.arange(3)) for examples in (first, first, again)]
    assert UNK in batches[0].inputs[0]
    assert len({str((b.inputs[0].tolist(), b.labels.tolist())) for b in batches}) == 1


# What is wrong with the text or the settings


def test_bad_rows_are_named_with_file_and_line(folder):
    settings = settings_for(folder, train=[*TRAIN[:4], ("a dog", " "), *TRAIN[4:]])
    error = refusal(DataError, settings)
    assert f"{settings.data.train[1]}:5: empty" in error.why
    assert "1 bad" in error.what and "--skip-bad" in error.remedy
    made = prepare.prepare(settings.replace(data={"skip_bad": True}))
    assert texts(made) == TRAIN


def test_a_label_unseen_in_training_is_named_with_file_and_line(folder):
    valid = [*LABELLED[:2], ("a dog sees", "superb")]
    settings = settings_for(folder, kind="classifier", train=LABELLED, valid=valid)
    error = refusal(DataError, settings)
    assert f"{settings.data.valid[0]}:3: unknown label" in error.why
    assert "'superb'" in error.why
    made = prepare.prepare(settings.replace(data={"skip_bad": True}))
    assert len(made.valid) == len(made.valid_rows) == 2


@pytest.mark.parametrize("split", ["train", "valid"])
def test_bad_rows_of_both_texts_are_reported(folder, split):
    """Also when all is in the cache, which once did not remember those to validate on."""
    rows = {"train": TRAIN, "valid": VALID}
    rows[split] = [("a dog", " "), *rows[split]]
    for _ in ("made", "found in the cache"):
        made = prepared(folder, **rows, skip_bad=True)
        lost = {"train": made.lost, "valid": made.valid_lost}
        assert lost.pop(split).bad_rows == f"{len(rows[split])} rows read, 1 bad (empty: 1)"
        assert [other.bad_rows for other in lost.values()] == [""]


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("kind", ["translator", "classifier", "language-model", MASKED])
def test_as_many_files_as_the_model_reads_or_none(folder, split, kind):
    needed = 1 if "language-model" in kind else 2
    rows = {"train": TRAIN, "valid": VALID}
    files = {name: write_sides(folder, name, rows[name])[:needed] for name in rows}
    files[split] = write_sides(folder, split, [row * 2 for row in rows[split]])[: 3 - needed]
    data = {"name": "files", **files, "hidden": 0.2}
    error = refusal(DataError, RunSettings.of(model={"kind": kind, "vocab_size": 60}, data=data))
    assert f"data.{split} has {3 - needed} columns, and a {kind} reads {needed}" in error.what
    assert files[split][0] in error.what and "a text" in error.why
    assert error.remedy.startswith("Name a file for a text")


@pytest.mark.parametrize("kind", ["translator", "classifier"])
@pytest.mark.parametrize("columns", [["1"], ["1", "2", "1"]], ids=len)
def test_as_many_columns_of_a_table_as_the_model_reads(folder, kind, columns):
    table = {name: write_table(folder, name, LABELLED) for name in ("train", "valid")}
    data = {"name": "files", **table, "columns": columns}
    error = refusal(DataError, RunSettings.of(model={"kind": kind}, data=data))
    assert f"has {len(columns)} columns, and a {kind} reads 2" in error.what


@pytest.mark.parametrize("place", ["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(folder, place):
    (folder / "folder").mkdir()
    settings = settings_for(folder)
    settings = settings.replace(data={"train": [str(folder / place), settings.data.train[1]]})
    error = refusal(DataError, settings)
    assert f"{folder / place} cannot be read" in error.what and "Check its name" in error.remedy


@pytest.mark.parametrize("split", ["train", "valid"])
def test_missing_file_settings_are_named(folder, split):
    error = refusal(DataError, settings_for(folder).replace(data={split: []}))
    assert f"data.{split}" in error.what and "files" in error.why
    assert f"Set data.{split}" in error.remedy


@pytest.mark.parametrize("kind", ["classifier", "language-model", MASKED])
def test_a_task_is_refused_for_other_kinds_of_model(folder, kind):
    data = {"name": "copy", "examples": 4, "valid_examples": 2}
    error = refusal(GlassformerError, RunSettings.of(model={"kind": kind}, data=data))
    assert kind in error.what and "copy" in error.what
    assert "tagger" in error.remedy and "translator" in error.remedy


def test_text_is_refused_to_a_tagger_which_would_have_no_labels(folder):
    error = refusal(GlassformerError, settings_for(folder, kind="tagger"))
    assert "tagger" in error.what


def test_the_grammar_is_refused_to_a_classifier_which_would_have_no_labels(folder):
    error = refusal(GlassformerError, RunSettings.of(model={"kind": "classifier"}))
    assert "classifier" in error.what and "'grammar'" in error.what
    kinds = ("'translator'", "'language-model'", "'masked-language-model'")
    assert all(kind in error.remedy for kind in kinds) and "classifier" not in error.remedy


def test_a_masked_language_model_without_a_mask_rate_is_refused(folder):
    error = refusal(SettingsError, settings_for(folder, kind=MASKED))
    assert "data.mask_rate = 0.0" in error.what and MASKED in error.what
    assert "masked share" in error.why and "data.mask_rate = 0.15" in error.remedy


def test_a_masked_language_model_does_not_draw_its_subwords(folder):
    error = refusal(
        SettingsError, settings_for(folder, kind=MASKED, hidden=0.2, subword_sampling=0.1)
    )
    assert "data.subword_sampling = 0.1" in error.what and MASKED in error.what
    assert "pieces" in error.why and "Leave data.subword_sampling out" in error.remedy


def test_a_task_too_short_to_be_one_is_refused(folder):
    data = {"name": "copy", "examples": 4, "valid_examples": 2, "longest": 1}
    error = refusal(GlassformerError, RunSettings.of(model={"kind": "tagger"}, data=data))
    assert "longest" in error.what


def test_a_model_with_one_side_takes_the_source_vocabulary(folder):
    """As where a classifier starts from a translator."""
    pairs = prepared(folder, joint_vocabulary=False)
    assert pairs.tokenizers.keys() == {"source", "target"}
    labelled = settings_for(folder, "classifier", LABELLED, LABELLED)
    made = prepare.prepare(labelled, 1, pairs.tokenizers)
    assert made.tokenizers == {"joint": pairs.tokenizers["source"]}
    assert made.settings.model.vocab_size == len(pairs.tokenizers["source"])


EXACT = {"byte_fallback": True, "normalization": "identity", "vocab_size": 420}


def mixture_settings(folder: Path, **data) -> RunSettings:
    """A mixture of two sources of files, and two sets to validate on."""
    files = {
        name: {"name": name, "files": write_sides(folder, name, rows)}
        for name, rows in {
            "small": TRAIN[:4], "large": TRAIN[4:], "first": VALID[:2], "second": VALID[2:]
        }.items()
    }  # fmt: skip
    sources = [files["small"] | {"weight": 1}, files["large"] | {"weight": 3}]
    valid_sets = [files["first"], files["second"]]
    model = {"vocab_size": data.pop("vocab_size", 60)}
    mixed = {"name": "mixture", "sources": sources, "valid_sets": valid_sets, "epoch_tokens": 200}
    return RunSettings.of(model=model, data=mixed | data)


def epoch_texts(made: Prepared, number: int = 0) -> list[tuple[str, ...]]:
    epoch = made.train.epoch(1, number)
    tokenizer = made.tokenizers["joint"]
    return [tuple(tokenizer.decode(side[i]) for side in epoch.sides) for i in range(len(epoch))]


def test_an_epoch_of_a_mixture_has_pairs_of_its_sources(folder):
    made = prepare.prepare(mixture_settings(folder))
    assert len(made.train) == len(TRAIN)
    rows = epoch_texts(made)
    assert set(rows) <= set(TRAIN)
    assert set(rows) & set(TRAIN[:4]) and set(rows) & set(TRAIN[4:])


def test_every_validation_set_is_separate_and_in_the_joint_one(folder):
    made = prepare.prepare(mixture_settings(folder))
    assert [one.name for one in made.valid_sets] == ["first", "second"]
    assert [one.rows for one in made.valid_sets] == [VALID[:2], VALID[2:]]
    assert made.valid_rows == VALID and texts(made, "valid") == VALID


def test_in_both_directions_each_set_is_validated_in_both(folder):
    made = prepare.prepare(mixture_settings(folder, directions="both"))
    names = ["first.en-fr", "first.fr-en", "second.en-fr", "second.fr-en"]
    assert [one.name for one in made.valid_sets] == names
    assert [one.to for one in made.valid_sets] == ["fr", "en"] * 2
    back = [(fr, en) for en, fr in VALID]
    assert [r for one in made.valid_sets for r in one.rows] == [
        *VALID[:2], *back[:2], *VALID[2:], *back[2:]
    ]  # fmt: skip
    assert texts(made, "valid") == [row for one in made.valid_sets for row in one.rows]
    rows = set(epoch_texts(made))
    assert rows & set(TRAIN) and rows - set(TRAIN) <= {(fr, en) for en, fr in TRAIN}


def test_one_text_in_both_directions_is_read_whole_in_every_epoch(folder):
    made = prepared(folder, directions="both")
    for number in range(3):
        rows = [row if row in TRAIN else row[::-1] for row in epoch_texts(made, number)]
        assert sorted(rows) == sorted(TRAIN)
    assert [one.name for one in made.valid_sets] == ["valid.en-fr", "valid.fr-en"]


def test_noise_changes_some_pairs_of_every_epoch_and_no_validation(folder):
    made = prepared(folder, noise={"upper": 0.5}, **EXACT)
    upper = [(en.upper(), fr.upper()) for en, fr in TRAIN]
    rows = epoch_texts(made)
    assert set(rows) <= {*TRAIN, *upper} and set(rows) & set(upper) and set(rows) & set(TRAIN)
    assert texts(made, "valid") == VALID


def test_typography_is_plain_on_both_sides_before_subwords_are_learned(folder):
    rows = [("it’s “here”", "c’est «ici»?"), *TRAIN]
    made = prepared(folder, train=rows, valid=rows[:2], typography=True)
    plain = [('it\'s "here"', 'c\'est "ici" ?'), *TRAIN]
    assert texts(made) == plain and made.valid_rows == plain[:2]


def test_cleaning_drops_training_pairs_and_reports_them(folder):
    rows = [*TRAIN, TRAIN[0], ("a dog of 1950", "un chien")]
    made = prepared(folder, train=rows, valid=[*VALID, VALID[0]], clean=True)
    assert texts(made) == TRAIN and len(made.valid_rows) == len(VALID) + 1
    assert made.lost.bad_rows == f"{len(rows)} pairs read, 2 dropped ({2 / len(rows):.1%}): " + (
        "duplicate 1, numbers 1"
    )


def test_a_mixture_keeps_the_subwords_that_it_is_given(folder):
    given_subwords = prepare.prepare(mixture_settings(folder)).tokenizers
    settings = mixture_settings(folder, epoch_tokens=90).replace(data={"skip_bad": True})
    assert prepare.prepare(settings, 1, given_subwords).tokenizers == given_subwords


def test_a_source_without_an_example_is_named(folder):
    with pytest.raises(DataError, match="train in source 'small'"):
        prepare.prepare(mixture_settings(folder, max_length=1))
