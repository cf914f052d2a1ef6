"""The examples that a model is judged on, and their checksums."""

import gzip
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from glassformer.data import datasets
from glassformer.data.corpus import TextFiles
from glassformer.errors import DataError
from glassformer.evaluate.examples import CHUNK, check_fit, chunks_by_length, from_files, from_set


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)


def text(folder: Path, name: str, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path, content = folder / name, "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def digest(*lines: str) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def test_files_give_rows_and_the_checksums_of_the_files(tmp_path):
    en, fr = text(tmp_path, "a.en", "one", "two"), text(tmp_path, "a.fr.gz", "un", "deux")
    found = from_files(TextFiles((en, fr)))
    assert found.rows == [("one", "un"), ("two", "deux")] and not found.skipped
    assert found.checksums == {
        "a.en": digest("one", "two"), "a.fr.gz": sha256(fr.read_bytes()).hexdigest(),
    }  # fmt: skip
    assert from_files(TextFiles((en, fr)), 1).rows == found.rows[:1]


def test_files_of_equal_name_have_separate_checksums(tmp_path):
    files = tuple(text(tmp_path / side, "text", side) for side in ("en", "fr"))
    checksums = from_files(TextFiles(files, format="lines")).checksums
    assert checksums == {str(files[0]): digest("en"), str(files[1]): digest("fr")}


def test_bad_rows_are_refused_or_counted(tmp_path):
    files = TextFiles((text(tmp_path, "a.en", "one", "two"), text(tmp_path, "a.fr", "un", "")))
    with pytest.raises(DataError, match=r"a\.fr:2"):
        from_files(files)
    found = from_files(files, skip_bad=True)
    assert found.rows == [("one", "un")] and "1 bad" in found.skipped


def test_unknown_labels_are_named(tmp_path):
    table = text(tmp_path, "a.jsonl", '{"t": "good", "l": 1}', '{"t": "odd", "l": "no"}')
    with pytest.raises(DataError, match="unknown label"):
        from_files(TextFiles((table,), ("t", "l")), labels=("0", "1"))
    assert from_files(TextFiles((table,), ("t", "l")), 1, labels=("0", "1")).rows == [("good", "1")]


@pytest.fixture
def little(monkeypatch, tmp_path):
    """multi30k, with other text and without its checksums."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    monkeypatch.setattr(datasets, "_check", lambda path, expected: None)
    raw, tok = tmp_path / "multi30k/raw", tmp_path / "multi30k/tok"
    text(raw, "val.en.gz", "One cat.", "Two.")
    text(raw, "val.fr.gz", "Un chat.", "Deux.")
    text(tok, "val.lc.norm.tok.fr.gz", "un chat .", "deux .")


def test_checksums_of_a_set_do_not_depend_on_its_file_format(little):
    found = from_set("multi30k", "valid", ("en", "fr"))
    assert found.rows == [("One cat.", "Un chat."), ("Two.", "Deux.")]
    assert found.checksums == {
        "multi30k valid en": digest("One cat.", "Two."),
        "multi30k valid fr": digest("Un chat.", "Deux."),
    }
    assert from_set("multi30k", "valid") == found
    few = from_set("multi30k", "valid", limit=1)
    assert few.checksums["multi30k valid fr"] == digest("Un chat.")


def test_tokenised_references_are_read_if_a_set_has_them(little):
    found = from_set("multi30k", "valid", ("en", "fr"), tokenised=True)
    assert found.rows[0] == ("One cat.", "Un chat.", "un chat .")
    assert found.checksums["multi30k valid fr tokenised"] == digest("un chat .", "deux .")


def test_all_references_of_a_set_come_in_both_directions(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    monkeypatch.setattr(datasets, "_check", lambda path, expected: None)
    dev = tmp_path / "general/dev"
    text(dev, "tatoeba.dev.en.gz", "Hi.", "Hello.", "Go.")
    text(dev, "tatoeba.dev.fr.gz", "Salut.", "Bonjour.", "Va.")
    text(dev, "tatoeba.dev.refs.tsv.gz", "Hi.\tSalut.\tBonjour.", "Hello.\tBonjour.", "Go.\tVa.")
    found = from_set("general", "tatoeba-dev", ("en", "fr"), several=True)
    assert found.several and "tatoeba.dev.refs.tsv.gz" in found.checksums
    assert found.rows == [("Hi.", "Salut.", "Bonjour."), ("Hello.", "Bonjour."), ("Go.", "Va.")]
    back = from_set("general", "tatoeba-dev", ("fr", "en"), several=True)
    assert back.rows == [("Salut.", "Hi."), ("Bonjour.", "Hello.", "Hi."), ("Va.", "Go.")]
    one = from_set("general", "tatoeba-dev", ("en", "fr"))
    assert not one.several and one.rows[0] == ("Hi.", "Salut.")
    assert not from_set("grammar", "test", limit=1, several=True).several


def test_the_grammar_is_a_set_of_pairs_without_labels():
    found = from_set("grammar", "test", limit=3, tokenised=True)
    assert len(found.rows) == 3 and all(len(row) == 2 for row in found.rows)
    assert found.checksums.keys() == {"grammar test en", "grammar test fr"}
    assert from_set("grammar", "test", limit=3).checksums == found.checksums
    back = from_set("grammar", "test", ("fr", "en"), limit=3)
    assert back.rows == [(fr, en) for en, fr in found.rows] and back.checksums == found.checksums
    with pytest.raises(DataError, match="no column of grammar called 'de'"):
        from_set("grammar", "test", ("en", "de"))
    with pytest.raises(DataError, match="no labels"):
        from_set("grammar", "test", labels=("0", "1"))
    with pytest.raises(DataError, match="split"):
        from_set("grammar", "tset")


def test_chunks_hold_every_text_once_in_order_of_length():
    texts = ["x" * (n * 37 % 101) for n in range(2 * CHUNK + 5)]
    found = chunks_by_length(texts)
    assert [len(chunk) for chunk in found] == [CHUNK, CHUNK, 5]
    flat = [i for chunk in found for i in chunk]
    assert sorted(flat) == list(range(len(texts)))
    assert [len(texts[i]) for i in flat] == sorted(map(len, texts))
    assert chunks_by_length([]) == []


def test_texts_too_long_are_counted_and_the_first_is_named():
    letters = SimpleNamespace(encode=lambda texts: [list(text) for text in texts])
    check_fit(["abc", ""], letters, 3)
    with pytest.raises(DataError, match=r"2 of 3 texts have more than 2 subwords") as caught:
        check_fit(["ab", "abc", "abcd"], letters, 2)
    assert "text 2: 'abc'" in caught.value.why and "--truncate" in caught.value.remedy
