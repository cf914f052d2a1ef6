"""Named sets: the manifests hold together, files are found, checked, fetched and prepared."""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from glassformer.data import datasets
from glassformer.data.corpus import Corpus, TextFiles
from glassformer.data.datasets import File, Manifest, Split
from glassformer.errors import DataError, MissingPackageError

NEVER_FETCHED = {"general"}  # put together by hand, and looked for only


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "glassformer" / "data"


@pytest.fixture
def given(monkeypatch, tmp_path) -> Path:
    """An empty $GLASSFORMER_DATA."""
    folder = tmp_path / "given"
    folder.mkdir()
    monkeypatch.setenv("GLASSFORMER_DATA", str(folder))
    return folder


@pytest.fixture
def site(tmp_path):
    """A folder, and the address at which a real server shows it."""
    folder = tmp_path / "site"
    folder.mkdir()
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *args: None})
    handler = partial(quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def sha256(content: str | bytes) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


EN, FR = "a dog\n", "un chien\n"


def toy(monkeypatch, url: str = "http://127.0.0.1:1", **splits: Split) -> Manifest:
    """A set of two files with an address, and one without."""
    sheet = Manifest(
        name="toy",
        title="Toy",
        home="",
        licence="",
        columns=("en", "fr"),
        splits={"train": Split(files=("toy/train.{column}",)), **splits},
        files={
            "toy/train.en": File(sha256=sha256(EN), size=len(EN), url=f"{url}/train.en"),
            "toy/train.fr": File(sha256=sha256(FR), size=len(FR), url=f"{url}/train.fr"),
            "toy/kept.en": File(sha256=sha256(EN)),
            "toy/kept.fr": File(sha256=sha256(FR)),
        },
    )
    monkeypatch.setattr(datasets, "manifest", lambda name: sheet)
    return sheet


# ------------------------------------------------------------------ the manifests


def test_the_package_has_these_sets():
    assert datasets.names() == ["general", "imdb", "multi30k", "wmt14"]


@pytest.mark.parametrize("name", datasets.names())
def test_a_manifest_lists_every_file_of_every_split_with_its_origin(name):
    sheet = datasets.manifest(name)
    assert sheet.name == name
    used = {
        file.format(column=column)
        for split in sheet.splits.values()
        for file in split.files
        for column in split.columns or sheet.columns
    }
    used |= {split.references for split in sheet.splits.values() if split.references}
    assert used <= sheet.files.keys()
    for file, source in sheet.files.items():
        assert file.startswith(f"{name}/")
        assert file in used or source.url, "not read, so something must be made of it"
        if source.prepare:
            assert source.sha256 is None
            assert name in datasets.PREPARE
        else:
            assert len(bytes.fromhex(source.sha256 or "")) == 32
        assert source.url is None or source.url.startswith("https://")
    for split in () if name in NEVER_FETCHED else ("train", "valid", "test"):
        last = sheet.splits[split].files[-1].format(column=sheet.columns[0])
        assert sheet.files[last].public, f"{split} can be had by everyone"


@pytest.mark.parametrize(
    ("ask", "err"),
    [
        (lambda: datasets.manifest("multi30"), "'multi30'.*\n.*\n.*Did you mean 'multi30k'"),
        (lambda: datasets.find("imdb", "tests"), "split of imdb.*\n.*\n.*Did you mean 'test'"),
        (
            lambda: datasets.find("multi30k", "train", ("en", "cs")),
            "column of multi30k called 'cs'",
        ),
        (lambda: datasets.find("imdb", "unsup", ("label",)), "There is text"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(ask, err):
    with pytest.raises(DataError, match=err):
        ask()


# ------------------------------------------------------------------ finding and fetching


def test_a_set_is_looked_for_in_the_folder_given_then_in_the_cache(monkeypatch, given, cache):
    toy(monkeypatch)
    en, fr = put(given, "toy/train.en", EN), put(cache, "toy/train.fr", FR)
    put(cache, "toy/train.en", EN)
    assert datasets.find("toy", download=False) == TextFiles((en, fr))
    assert list(given.rglob("*.*")) == [en], "the folder given is only read"


def test_columns_are_read_in_the_order_asked_for(monkeypatch, given):
    toy(monkeypatch)
    en, fr = put(given, "toy/train.en", EN), put(given, "toy/train.fr", FR)
    assert datasets.find("toy", "train", ("fr", "en")).paths == (fr, en)
    assert datasets.find("toy", "train", ("fr",)).paths == (fr,)


def test_a_split_may_be_a_slice_of_its_files(monkeypatch, given):
    part = Split(files=("toy/train.{column}",), columns=("en",), start=2, stop=5)
    toy(monkeypatch, valid=part)
    path = put(given, "toy/train.en", EN)
    assert datasets.find("toy", "valid") == TextFiles((path,), start=2, stop=5)


def test_a_missing_file_is_downloaded_into_the_cache(monkeypatch, given, cache, site):
    folder, url = site
    put(folder, "train.en", EN), put(folder, "train.fr", FR)
    toy(monkeypatch, url)
    seen = []
    files = datasets.find("toy", progress=lambda *now: seen.append(now))
    assert list(Corpus(files)) == [("a dog", "un chien")]
    assert files.paths == (cache / "toy/train.en", cache / "toy/train.fr")
    assert ("toy/train.fr", len(FR), len(FR)) in seen
    assert not list(given.iterdir())
    assert datasets.find("toy", download=False) == files


def test_without_download_the_error_names_the_path_of_a_missing_file(monkeypatch):
    toy(monkeypatch)
    with pytest.raises(DataError, match=r"glassformer data get toy") as raised:
        datasets.find("toy", download=False)
    assert "$GLASSFORMER_DATA/toy/train.en" in raised.value.remedy


def test_without_a_network_the_place_for_the_file_is_named(monkeypatch):
    toy(monkeypatch)
    monkeypatch.setattr(datasets, "fetch", partial(datasets.fetch, attempts=1))
    with pytest.raises(DataError, match=r"put the file at \$GLASSFORMER_DATA/toy/train\.en"):
        datasets.find("toy")


def test_the_first_alternative_that_is_all_there_is_read(monkeypatch, given, site):
    folder, url = site
    put(folder, "train.en", EN), put(folder, "train.fr", FR)
    either = Split(files=("toy/kept.{column}", "toy/train.{column}"))
    toy(monkeypatch, url, train=either)
    put(given, "toy/kept.en", EN)
    assert datasets.find("toy").paths[0].name == "train.en", "half of the first is none"
    put(given, "toy/kept.fr", FR)
    assert [path.name for path in datasets.find("toy").paths] == ["kept.en", "kept.fr"]


def test_get_returns_every_split_that_can_be_downloaded(monkeypatch, given, site):
    folder, url = site
    put(folder, "train.en", EN), put(folder, "train.fr", FR)
    toy(monkeypatch, url, kept=Split(files=("toy/kept.{column}",)))
    assert datasets.get("toy").keys() == {"train"}
    with pytest.raises(DataError, match="no public address"):
        datasets.find("toy", "kept")
    put(given, "toy/kept.en", EN), put(given, "toy/kept.fr", FR)
    assert datasets.get("toy").keys() == {"train", "kept"}


def test_a_file_with_another_content_is_refused(monkeypatch, given):
    toy(monkeypatch)
    path = put(given, "toy/train.en", "a cat\n")
    err = f"should be {sha256(EN)} and is {sha256(path.read_bytes())}"
    with pytest.raises(DataError, match=err):
        datasets.find("toy", "train", ("en",))
    assert path.exists()


def test_a_file_is_checked_once_and_again_when_it_changes(monkeypatch, given):
    toy(monkeypatch)
    path = put(given, "toy/train.en", EN)
    hashed = []
    real = datasets.sha256_of
    monkeypatch.setattr(datasets, "sha256_of", lambda path: hashed.append(path) or real(path))
    for _ in range(3):
        datasets.find("toy", "train", ("en",))
    assert hashed == [path]
    path.write_text("a cat\n")
    with pytest.raises(DataError, match="is not the file it should be"):
        datasets.find("toy", "train", ("en",))


def test_data_is_read_with_a_read_only_cache(monkeypatch, given, tmp_path):
    toy(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(put(tmp_path, "a file", "")))
    path = put(given, "toy/train.en", EN)
    assert datasets.find("toy", "train", ("en",)).paths == (path,)


def test_a_missing_data_folder_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "typo"))
    with pytest.raises(DataError, match=r"GLASSFORMER_DATA names no folder: .*typo"):
        datasets.find("multi30k")


# ------------------------------------------------------------------ preparing

REVIEWS = {
    "aclImdb/train/pos/0_9.txt": "Très <br /> good\n",
    "aclImdb/train/neg/1_2.txt": "bad",
    "aclImdb/test/neg/7_1.txt": "worse",
    "aclImdb/train/unsup/3_0.txt": "who knows",
    "aclImdb/README": "not a review",
    "aclImdb/train/pos/../../../../evil_1.txt": "out of the folder",
    "/aclImdb/train/pos/5_9.txt": "at the root",
}


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in REVIEWS.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("aclImdb/train/pos/6_9.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    return packed.getvalue()


def test_imdb_is_prepared_from_the_archive_and_from_nothing_else_in_it(
    monkeypatch, tmp_path, given, cache
):
    tar = "imdb/aclImdb_v1.tar.gz"
    put(given, tar, archive())
    sheet = datasets.manifest("imdb")
    files = {**sheet.files, tar: File(sha256=sha256(archive()))}
    sheet = sheet.model_copy(update={"files": files})
    monkeypatch.setattr(datasets, "manifest", lambda name: sheet)

    whole = datasets.find("imdb", "train-and-valid")
    assert set(Corpus(whole, labels=sheet.labels)) == {("Très <br /> good\n", "1"), ("bad", "0")}
    assert list(Corpus(datasets.find("imdb", "test", download=False))) == [("worse", "0")]
    assert list(Corpus(datasets.find("imdb", "unsup", download=False))) == [("who knows",)]
    rows = map(json.loads, gzip.decompress(whole.paths[0].read_bytes()).splitlines())
    assert {row["id"] for row in rows} == {"train/pos/0_9", "train/neg/1_2"}
    made = {path.relative_to(cache) for path in cache.rglob("*") if path.is_file()}
    expected = {Path(f"imdb/prepared/{part}.jsonl.gz") for part in ("train", "test", "unsup")}
    assert {path for path in made if path.parts[0] != "checked"} == expected
    assert not list(tmp_path.rglob("*evil*"))


def test_valid_and_train_of_imdb_cover_all_reviews_and_share_no_film(given):
    """The first and last reviews of films at the borders, as they are numbered in the archive."""
    train = {"pos": [0, 1_102, 3_514, 10_987, 11_010], "neg": [0, 3_513, 3_970, 11_016, 11_499]}
    valid = {"pos": [11_011, 11_020, 11_100, 12_499], "neg": [3_514, 3_600, 3_969, 11_500, 12_499]}
    rows = [
        {"id": f"train/{kind}/{number}_7", "text": f"{kind} {number}"}
        for part in (train, valid)
        for kind, numbers in part.items()
        for number in numbers
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    path, splits = put(given, "train.jsonl", text), datasets.manifest("imdb").splits

    def read(split):
        return list(Corpus(TextFiles((path,), ("text",), where=splits[split].where)))

    whole = [(row["text"],) for row in rows]
    assert read("train-and-valid") == whole
    assert read("train") == whole[:10]
    assert read("valid") == whole[10:]


def hub(monkeypatch, rows) -> list[tuple]:
    """A stand-in for the `datasets` package; gives the calls made to it."""
    calls = []

    def load_dataset(*args, **options):
        calls.append((args, options))
        return rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def translations(*pairs):
    for en, fr in pairs:
        yield {"translation": {"en": en, "fr": fr}}


def test_wmt14_takes_the_first_short_distinct_pairs_of_train(monkeypatch):
    at_limit, too_long = " ".join(["w"] * 40), " ".join(["w"] * 41)
    rows = translations(
        ("one\u2028 more\n", "un"),
        (too_long, "trop"),
        ("", "vide"),
        ("empty", " "),
        ("one more", "un"),
        ("one more", "une"),
        (at_limit, "juste"),
        ("not reached", "pas atteint"),
    )
    calls = hub(monkeypatch, rows)
    monkeypatch.setattr(datasets, "WMT14_PAIRS", 3)
    pairs = list(Corpus(datasets.find("wmt14")))
    assert pairs == [("one more", "un"), ("one more", "une"), (at_limit, "juste")]
    assert calls == [(("wmt/wmt14", "fr-en"), {"split": "train", "streaming": True})]
    assert next(rows)["translation"]["en"] == "not reached", "reading stops when it has enough"
    assert list(Corpus(datasets.find("wmt14", download=False))) == pairs


def test_wmt14_keeps_every_pair_of_a_test_set(monkeypatch):
    pairs = [("twice", "deux fois"), ("twice", "deux fois"), (" ".join(["w"] * 99), "long")]
    calls = hub(monkeypatch, translations(*pairs))
    assert list(Corpus(datasets.find("wmt14", "valid"))) == pairs
    assert calls[0][1]["split"] == "validation"


def test_wmt14_names_the_package_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackageError, match=r"glassformer\[hf\]"):
        datasets.find("wmt14")


def test_a_preparation_that_fails_leaves_no_file_and_says_why(monkeypatch, cache):
    def cut():
        yield from translations(("one", "un"))
        raise ConnectionError("the hub is gone")

    hub(monkeypatch, cut())
    with pytest.raises(DataError, match="wmt14 could not be prepared: the hub is gone"):
        datasets.find("wmt14")
    assert not list(cache.rglob("*.gz"))


def test_two_processes_that_prepare_a_set_write_separate_files(tmp_path, monkeypatch):
    path, pids = tmp_path / "text.gz", iter((1, 2))
    monkeypatch.setattr(datasets.os, "getpid", lambda: next(pids))

    def rows(*texts, meanwhile=lambda: None):
        for text in texts:
            yield (text,)
            meanwhile()

    def other():
        if not path.exists():
            datasets._write([path], rows("other"))

    datasets._write([path], rows("one", "two", meanwhile=other))
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\n"
    assert list(tmp_path.iterdir()) == [path]
