"""The cache equals concatenating and indexing keys and values."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.cache import KeyValueCache
from glassformer.model.masks import padding_mask

G, K, CAPACITY = 2, 3, 12
SIZES = {
    "vocab_size": 11, "d_model": 8, "n_heads": 4, "d_ff": 16, "dropout": 0.0,
    "encoder_layers": 1, "decoder_layers": 2,
}  # fmt: skip


def rand(batch: int, length: int) -> Tensor:
    return torch.randn(batch, G, length, K, dtype=torch.float64)


def empty(batch: int, capacity: int = CAPACITY) -> KeyValueCache:
    return KeyValueCache.empty(batch, G, capacity, K, rand(1, 1))


def translator(**changes: object):
    return build("tiny", **SIZES, **changes).double().eval()


STEPS = st.lists(
    st.integers(0, 4) | st.lists(st.integers(0, 99), min_size=1, max_size=5),
    min_size=1,
    max_size=8,
)


@given(steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_appending_and_reordering_equal_concatenation_and_indexing(steps):
    cache, k, v = empty(3, capacity=32), rand(3, 0), rand(3, 0)
    for step in steps:
        if isinstance(step, int):  # append this number of positions
            new_k, new_v = rand(k.size(0), step), rand(k.size(0), step)
            k, v = torch.cat((k, new_k), dim=2), torch.cat((v, new_v), dim=2)
            given_k, given_v = cache.append(new_k, new_v)
        else:  # repeat and drop rows
            rows = torch.tensor(step) % k.size(0)
            k, v = k[rows], v[rows]
            cache.reorder(rows)
            given_k, given_v = cache.read(torch.float64)
        assert torch.equal(given_k, k) and torch.equal(given_v, v)
        assert cache.length == k.size(2)
        assert cache.k.size(2) == cache.v.size(2) == 32  # the capacity stays


def test_reordering_to_no_rows_gives_an_empty_cache():
    cache = empty(3)
    cache.append(rand(3, 2), rand(3, 2))
    cache.reorder(torch.empty(0, dtype=torch.long))
    assert [x.shape for x in cache.read(torch.float64)] == [(0, G, 2, K)] * 2


def test_appending_writes_in_place():
    cache = empty(2)
    places = cache.k.data_ptr(), cache.v.data_ptr()
    for _ in range(CAPACITY):
        k, v = cache.append(rand(2, 1), rand(2, 1))
        assert (k.data_ptr(), v.data_ptr()) == (cache.k.data_ptr(), cache.v.data_ptr()) == places


def test_a_full_cache_returns_its_keys_and_values():
    k, v = rand(2, 5), rand(2, 5)
    cache = KeyValueCache.full(k, v)
    assert cache.length == 5
    assert all(map(torch.equal, cache.read(torch.float64), (k, v)))


@pytest.mark.parametrize("filled", [0, CAPACITY - 1, CAPACITY])
def test_more_than_the_capacity_is_refused_with_both_numbers(filled):
    cache = empty(2)
    cache.append(rand(2, filled), rand(2, filled))
    asked = CAPACITY + 2
    with pytest.raises(InputError) as caught:
        cache.append(rand(2, asked - filled), rand(2, asked - filled))
    assert f"capacity of {CAPACITY} positions; {asked} are needed" in caught.value.what
    assert "allocated once" in caught.value.why
    assert "capacity=" in caught.value.remedy


def test_a_refused_append_leaves_the_cache_unchanged():
    cache, k, v = empty(2), rand(2, CAPACITY - 1), rand(2, CAPACITY - 1)
    cache.append(k, v)
    with pytest.raises(InputError):
        cache.append(rand(2, 2), rand(2, 2))
    assert cache.length == CAPACITY - 1
    assert all(map(torch.equal, cache.read(torch.float64), (k, v)))


@torch.no_grad()
def test_source_keys_and_values_are_computed_once():
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
def test_after_reordering_each_row_continues_its_parent():
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
def test_the_size_follows_from_the_shapes_and_shrinks_with_kv_heads(n_kv_heads):
    rows, length, d_k, n_layers = 3, 5, 2, 2
    memory = torch.randn(rows, length, 8, dtype=torch.float64)
    n_bytes = translator(n_kv_heads=n_kv_heads).decoder.start_cache(CAPACITY, memory).n_bytes
    one_head = 2 * rows * (CAPACITY + length) * d_k * memory.element_size()
    assert n_bytes == n_layers * n_kv_heads * one_head
    assert translator().decoder.start_cache(CAPACITY, memory).n_bytes == n_bytes * 4 // n_kv_heads


@torch.no_grad()
def test_a_language_model_caches_self_attention_only():
    decoder = translator(kind="language-model").decoder
    cache = decoder.start_cache(CAPACITY, batch=3)
    assert all(layer.cross_attention is None for layer in cache.layers)
    assert cache.n_bytes == 2 * 2 * 3 * CAPACITY * 8 * decoder.embedding.weight.element_size()
    assert cache.layers[0].self_attention.k.dtype == torch.float64
    decoder(torch.ones(3, 2, dtype=torch.long), cache=cache)
    cache.reorder(torch.tensor([1]))
    assert cache.layers[1].self_attention.k.shape == (1, 4, CAPACITY, 2) and cache.length == 2
