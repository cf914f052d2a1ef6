"""The cache: nothing but concatenation and indexing, without doing either twice."""

import gc
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model import cache as cache_room
from glassformer.model.build import build
from glassformer.model.cache import KeyValueCache, Room
from glassformer.model.masks import padding_mask

G, K, CAPACITY = 2, 3, 12
SIZES = {
    "vocab_size": 11, "d_model": 8, "n_heads": 4, "d_ff": 16, "dropout": 0.0,
    "encoder_layers": 1, "decoder_layers": 2,
}  # fmt: skip


def rand(batch: int, length: int) -> Tensor:
    return torch.randn(batch, G, length, K, dtype=torch.float64)


def empty(batch: int, capacity: int = CAPACITY) -> KeyValueCache:
    return KeyValueCache.empty(batch, G, capacity, K, room(batch * capacity))


def room(positions: int) -> Room:
    return Room(rand(1, 1), 2 * positions * G * K)


def translator(**changes: object):
    return build("tiny", **SIZES, **changes).double().eval()


STEPS = st.lists(
    st.integers(0, 4) | st.lists(st.integers(0, 99), min_size=1, max_size=5),
    min_size=1,
    max_size=8,
)


@given(steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_any_order_of_appending_and_reordering_is_concatenation_and_indexing(steps):
    cache, k, v = empty(3, capacity=32), rand(3, 0), rand(3, 0)
    for step in steps:
        if isinstance(step, int):  # so many positions more
            new_k, new_v = rand(k.size(0), step), rand(k.size(0), step)
            k, v = torch.cat((k, new_k), dim=2), torch.cat((v, new_v), dim=2)
            given_k, given_v = cache.append(new_k, new_v)
        else:  # rows that repeat and rows that are dropped
            rows = torch.tensor(step) % k.size(0)
            k, v = k[rows], v[rows]
            cache.reorder(rows)
            given_k, given_v = cache.keys_values()
        assert torch.equal(given_k, k) and torch.equal(given_v, v)
        assert cache.length == k.size(2)
        assert cache.k.size(2) == cache.v.size(2) == 32  # the room stays


def test_each_row_keeps_the_positions_of_its_own_choice_and_goes_on_from_them():
    cache, k, v = empty(3), rand(3, 6), rand(3, 6)
    cache.append(k, v)
    slots = torch.tensor([[0, 2, 5], [1, 2, 4], [3, 3, 0]])
    cache.choose(slots)
    rows = torch.arange(3)[:, None]
    expected = [x.transpose(1, 2)[rows, slots].transpose(1, 2) for x in (k, v)]
    assert all(map(torch.equal, cache.keys_values(), expected)) and cache.length == 3
    more = rand(3, 2)
    given_k, _ = cache.append(more, more)
    assert torch.equal(given_k, torch.cat((expected[0], more), 2))
    assert cache.k.size(2) == CAPACITY, "the room stays"


def test_more_room_keeps_what_is_there():
    cache, first, second = empty(2, capacity=2), rand(2, 2), rand(2, 3)
    cache.append(first, -first)
    cache.move(5, room(10))
    k, v = cache.append(second, -second)
    assert torch.equal(k, torch.cat((first, second), 2)) and torch.equal(v, -k)


def test_rows_that_stay_stay_where_they_are():
    """Nothing is asked of the system for it, and nothing of the room is copied but what is kept."""
    cache = empty(4)
    cache.append(rand(4, 3), rand(4, 3))
    places = cache.k.data_ptr(), cache.v.data_ptr()
    cache.reorder(torch.tensor([1, 3]))
    assert (cache.k.data_ptr(), cache.v.data_ptr()) == places
    assert cache.k.shape == (2, G, CAPACITY, K) and cache.k.is_contiguous()


@torch.no_grad()
def test_all_layers_have_one_piece_of_memory_also_after_growing():
    decoder = translator().decoder
    cache = decoder.start_cache(4, torch.randn(3, 5, 8, dtype=torch.float64))

    def pieces() -> dict[int, int]:
        stores = [tensor.untyped_storage() for tensor in cache.tensors]
        return {store.data_ptr(): store.nbytes() for store in stores}

    n_layers, heads, d_k, source = 2, 4, 2, 5
    width = n_layers * 2 * heads * d_k * 8
    assert list(pieces().values()) == [3 * (4 + source) * width]
    decoder(torch.ones(3, 2, dtype=torch.long), cache=cache)
    cache.reorder(torch.tensor([2, 0]))
    before = [x.clone() for x in cache.tensors]
    cache.reserve(4)
    assert cache.capacity == 4
    cache.reserve(9)
    assert cache.capacity == 9
    assert list(pieces().values()) == [2 * (9 + source) * width], "as much as is needed"
    for x, old in zip(cache.tensors, before, strict=True):
        filled = 2 if old.size(2) == 4 else source
        assert torch.equal(x[:, :, :filled], old[:, :, :filled])


def test_reordering_to_no_rows_leaves_none():
    cache = empty(3)
    cache.append(rand(3, 2), rand(3, 2))
    cache.reorder(torch.empty(0, dtype=torch.long))
    assert [x.shape for x in cache.keys_values()] == [(0, G, 2, K)] * 2


def test_appending_writes_in_place():
    cache = empty(2)
    places = cache.k.data_ptr(), cache.v.data_ptr()
    for _ in range(CAPACITY):
        k, v = cache.append(rand(2, 1), rand(2, 1))
        assert (k.data_ptr(), v.data_ptr()) == (cache.k.data_ptr(), cache.v.data_ptr()) == places


def test_a_full_cache_gives_what_it_was_made_of():
    k, v = rand(2, 5), rand(2, 5)
    cache = KeyValueCache.full(k, v, room(10))
    assert cache.length == 5
    assert all(map(torch.equal, cache.keys_values(), (k, v)))


@pytest.mark.parametrize("filled", [0, CAPACITY - 1, CAPACITY])
def test_more_than_there_is_room_for_is_refused_with_both_numbers(filled):
    cache = empty(2)
    cache.append(rand(2, filled), rand(2, filled))
    asked = CAPACITY + 2
    with pytest.raises(InputError) as caught:
        cache.append(rand(2, asked - filled), rand(2, asked - filled))
    assert f"room for {CAPACITY} positions; {asked} were" in caught.value.what
    assert "makes no room" in caught.value.why
    assert "capacity=" in caught.value.remedy


def test_a_refused_step_leaves_the_cache_as_it_was():
    cache, k, v = empty(2), rand(2, CAPACITY - 1), rand(2, CAPACITY - 1)
    cache.append(k, v)
    with pytest.raises(InputError):
        cache.append(rand(2, 2), rand(2, 2))
    assert cache.length == CAPACITY - 1
    assert all(map(torch.equal, cache.keys_values(), (k, v)))


@torch.no_grad()
def test_the_keys_and_values_of_the_source_are_computed_once_however_many_steps():
    model, source = translator(), torch.randint(1, 11, (3, 5))
    calls: Counter[str] = Counter()
    for name, module in model.decoder.named_modules():
        if name.endswith("cross_attention.kv"):
            module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    cache = model.decoder.start_cache(CAPACITY, model.encoder(source))
    for step in range(6):
        model.decode(torch.randint(11, (3, 1)), None, padding_mask(source), cache=cache)
        cache.reorder(torch.tensor([2, 0, 0]))
        assert cache.length == step + 1
    assert calls == {f"layers.{i}.cross_attention.kv": 1 for i in range(2)}


@torch.no_grad()
def test_after_reordering_each_row_goes_on_from_the_row_it_was():
    model, source, target = translator(), torch.randint(1, 11, (3, 5)), torch.randint(1, 11, (3, 4))
    memory, mask, rows = model.encoder(source), padding_mask(source), torch.tensor([2, 2, 0, 1])
    cache = model.decoder.start_cache(CAPACITY, memory)
    model.decode(target, None, mask, cache=cache)
    cache.reorder(rows)
    following = torch.randint(1, 11, (4, 2))
    cached = model.decode(following, None, mask[rows], cache=cache)
    whole = model.decode(torch.cat((target[rows], following), dim=1), memory[rows], mask[rows])
    torch.testing.assert_close(cached, whole[:, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_its_size_is_what_the_shapes_say_and_shrinks_with_the_kv_heads(n_kv_heads):
    rows, length, d_k, n_layers = 3, 5, 2, 2
    memory = torch.randn(rows, length, 8, dtype=torch.float64)
    n_bytes = translator(n_kv_heads=n_kv_heads).decoder.start_cache(CAPACITY, memory).n_bytes
    one_head = 2 * rows * (CAPACITY + length) * d_k * memory.element_size()
    assert n_bytes == n_layers * n_kv_heads * one_head
    assert translator().decoder.start_cache(CAPACITY, memory).n_bytes == n_bytes * 4 // n_kv_heads


@torch.no_grad()
def test_a_language_model_keeps_self_attention_alone():
    decoder = translator(kind="language-model").decoder
    cache = decoder.start_cache(CAPACITY, batch=3)
    assert all(layer.cross_attention is None for layer in cache.layers)
    assert cache.n_bytes == 2 * 2 * 3 * CAPACITY * 8 * decoder.embedding.weight.element_size()
    assert cache.layers[0].self_attention.k.dtype == torch.float64
    decoder(torch.ones(3, 2, dtype=torch.long), cache=cache)
    cache.reorder(torch.tensor([1]))
    assert cache.layers[1].self_attention.k.shape == (1, 4, CAPACITY, 2) and cache.length == 2


@pytest.fixture
def spare(monkeypatch) -> list[Tensor]:
    """The pieces that are kept, none at first."""
    gc.collect()
    monkeypatch.setattr(cache_room, "SPARE", pieces := [])
    return pieces


def test_a_room_is_where_the_one_before_was_once_nobody_looks_there(spare):
    first = Room(torch.empty(0), 100).take(10, 10)
    place, row = first.data_ptr(), first[3]
    del first
    assert not spare  # a row is still looked at
    row.fill_(7)
    other = Room(torch.empty(0), 100).take(100).fill_(1)
    assert other.data_ptr() != place and bool((row == 7).all())
    del row
    smaller = Room(torch.empty(0, dtype=torch.float64), 40).take(40)
    assert smaller.data_ptr() == place and smaller.dtype == torch.float64 and not spare
    del smaller, other
    assert len(spare) == 2


def test_a_room_too_small_makes_way_for_a_larger_one(spare):
    Room(torch.empty(0), 10).take(10)
    (small,) = spare
    larger = Room(torch.empty(0), 1000).take(1000)
    assert not spare and small.nbytes == 40
    del larger
    assert [piece.nbytes for piece in spare] == [4000]


def test_no_more_is_kept_than_a_little(spare, monkeypatch):
    monkeypatch.setattr(cache_room, "MOST", 100)
    rooms = [Room(torch.empty(0), numbers).take(numbers) for numbers in (10, 12, 30)]
    rooms.clear()
    assert sum(piece.nbytes for piece in spare) == 88


def test_gradients_and_inference_have_the_same_rooms_and_nothing_of_each_other(spare):
    with torch.inference_mode():
        Room(torch.empty(0), 8).take(8).fill_(1)
    x = torch.ones(8, requires_grad=True)
    (2 * Room(x, 8).take(8).copy_(x)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 8
