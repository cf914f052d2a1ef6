"""Downloads, against a real server on loopback that cuts, stalls, lies and refuses."""

import socket
import threading
import time

import pytest

from glassformer.bench.faults.servers import CONTENT, HARMFUL, HARMLESS, SHA256, SIZE, serving
from glassformer.data import datasets
from glassformer.data.download import BLOCK, fetch, part_of
from glassformer.errors import DataError


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        yield server


def fetched(site, path, **options) -> bytes:
    fetch(options.pop("url", site.url), path, SHA256, SIZE, pause=0.001, **options)
    assert not part_of(path).exists()
    return path.read_bytes()


def test_the_whole_file_arrives_and_progress_tells_of_it(site, tmp_path):
    seen = []
    path = tmp_path / "new" / "folder" / "file.gz"
    assert fetched(site, path, progress=lambda *now: seen.append(now)) == CONTENT
    assert seen == sorted(seen)
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 3
    assert list(path.parent.iterdir()) == [path]


def test_a_cut_connection_goes_on_where_it_stopped(site, tmp_path):
    site.cuts = [1000, 70_000]
    assert fetched(site, tmp_path / "file.gz") == CONTENT
    assert site.asked == [None, "bytes=1000-", "bytes=71000-"]


def test_a_reset_connection_is_tried_again(site, tmp_path):
    site.cuts, site.resets = [BLOCK + 1, BLOCK + 1], True
    assert fetched(site, tmp_path / "file.gz") == CONTENT
    assert len(site.asked) > 1


def test_a_part_left_by_an_earlier_run_is_not_fetched_again(site, tmp_path):
    path = tmp_path / "file.gz"
    part_of(path).write_bytes(CONTENT[:12345])
    assert fetched(site, path) == CONTENT
    assert site.asked == ["bytes=12345-"]


def test_two_that_fetch_the_same_at_once_do_not_write_into_each_others_part(site, tmp_path):
    path, others = tmp_path / "new" / "file.gz", []

    def begin_another(done: int, total: int | None) -> None:
        if not others:
            others.append(threading.Thread(target=fetch, args=(site.url, path, SHA256, SIZE)))
            others[0].start()
            time.sleep(0.1)

    assert fetched(site, path, progress=begin_another) == CONTENT
    others[0].join()
    assert path.read_bytes() == CONTENT and list(path.parent.iterdir()) == [path]
    assert site.asked == [None]


def test_a_server_without_ranges_makes_it_start_over(site, tmp_path):
    site.cuts, site.ranges = [1000], False
    assert fetched(site, tmp_path / "file.gz") == CONTENT
    assert site.asked == [None, "bytes=1000-"]


def test_a_part_that_is_longer_than_the_file_makes_it_start_over(site, tmp_path):
    path = tmp_path / "file.gz"
    part_of(path).write_bytes(CONTENT + b"of another version")
    assert fetched(site, path) == CONTENT


def test_a_busy_server_is_asked_again(site, tmp_path):
    site.codes = [503, 429]
    assert fetched(site, tmp_path / "file.gz") == CONTENT
    assert len(site.asked) == 3


def test_a_wrong_checksum_names_both_and_leaves_the_old_file_whole(site, tmp_path):
    path, expected = tmp_path / "file.gz", "0" * 64
    path.write_text("old")
    with pytest.raises(DataError, match=f"should be {expected} and is {SHA256}"):
        fetch(site.url, path, expected, SIZE)
    assert path.read_text() == "old"
    assert not part_of(path).exists()


def test_a_missing_file_is_requested_once_and_reported(site, tmp_path):
    site.codes = [404]
    with pytest.raises(DataError, match="404 Not Found") as raised:
        fetch(site.url, tmp_path / "file.gz", SHA256, SIZE, by_hand="$GLASSFORMER_DATA/file.gz")
    assert site.url in raised.value.what
    assert "put it at $GLASSFORMER_DATA/file.gz" in raised.value.remedy
    assert len(site.asked) == 1
    assert not list(tmp_path.iterdir())


def test_without_a_network_it_says_where_to_put_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:  # bound, not listening: its port refuses
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/file.gz"
        with pytest.raises(DataError, match="Connection refused") as raised:
            fetch(
                url, tmp_path / "file.gz", SHA256, SIZE, by_hand="$GLASSFORMER_DATA/f", pause=0.001
            )
    assert url in raised.value.what
    assert "put the file at $GLASSFORMER_DATA/f" in raised.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_name_that_does_not_resolve_is_no_network(monkeypatch, tmp_path):
    def unknown(*args):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError, match=r"service not known.*\n.*no network here"):
        fetch("http://nowhere.invalid/f", tmp_path / "f", SHA256, SIZE, attempts=1)


def test_a_server_that_never_answers_is_left_after_the_timeout(site, tmp_path):
    url = site.url.replace("/file.gz", "/silence")
    start = time.monotonic()
    with pytest.raises(DataError, match="timed out"):
        fetch(url, tmp_path / "file.gz", SHA256, SIZE, timeout=0.05, attempts=2, pause=0.001)
    assert time.monotonic() - start < 5
    assert len(site.asked) == 2


def test_a_connection_that_is_always_cut_is_given_up_and_taken_up_by_the_next_run(site, tmp_path):
    path = tmp_path / "file.gz"
    site.cuts = [100, 100, 100]
    with pytest.raises(DataError, match=f"cut after 300 of {len(CONTENT)} bytes"):
        fetch(site.url, path, SHA256, SIZE, attempts=3, pause=0.001)
    assert not path.exists()
    assert fetched(site, path) == CONTENT
    assert site.asked[-1] == "bytes=300-"


def test_an_interrupted_download_leaves_nothing_under_the_final_name(site, tmp_path):
    path, seen = tmp_path / "file.gz", []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site.url, path, SHA256, SIZE, progress=interrupt)
    assert not path.exists()
    assert fetched(site, path) == CONTENT
    assert site.asked == [None, f"bytes={seen[-1]}-"]


def test_a_place_that_cannot_be_written_is_named(site, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written") as raised:
        fetch(site.url, tmp_path / "file" / "file.gz", SHA256, SIZE)
    assert str(tmp_path / "file") in raised.value.what


# Servers that lie


@pytest.mark.parametrize("lie", HARMLESS)
def test_nonsense_around_the_right_file_does_not_matter(site, tmp_path, lie):
    site.lie = HARMLESS[lie]
    assert fetched(site, tmp_path / "file.gz", timeout=2.0, attempts=1) == CONTENT
    assert list(tmp_path.iterdir()) == [tmp_path / "file.gz"]


@pytest.mark.parametrize("lie", HARMFUL)
def test_a_lie_is_one_error_in_time_and_no_wrong_file_is_kept(site, tmp_path, lie):
    site.lie = HARMFUL[lie]
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            fetch(
                *(site.url, tmp_path / "file.gz", SHA256, SIZE),
                **{"timeout": 0.1, "attempts": 2, "pause": 0.001},
            )
        assert site.url in caught.value.what
    assert time.monotonic() - start < 20, "s: 4 attempts of at most 3 timeouts, on a busy machine"
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert left.keys() <= {"file.gz.part"}
    assert all(len(content) < SIZE for content in left.values())
    site.lie = None
    if left and not CONTENT.startswith(*left.values()):  # what the server lied about is found out
        with pytest.raises(DataError, match="not the file that was asked for"):
            fetched(site, tmp_path / "file.gz")
    assert fetched(site, tmp_path / "file.gz") == CONTENT


def test_a_part_longer_than_the_file_is_of_another_version(site, tmp_path):
    path = tmp_path / "file.gz"
    part_of(path).write_bytes(bytes(SIZE + 1))
    assert fetched(site, path) == CONTENT
    assert site.asked == [None]


def test_a_whole_part_is_put_in_place_without_a_request(site, tmp_path):
    path = tmp_path / "file.gz"
    part_of(path).write_bytes(CONTENT)
    assert fetched(site, path) == CONTENT
    assert site.asked == []


def test_every_file_with_an_address_has_a_size_and_a_checksum():
    for name in datasets.names():
        for source in datasets.manifest(name).files.values():
            if source.url:
                assert source.size and source.size > 0 and source.sha256
