"""The stopwatch: one clock, every call of a watched module, and no trace of having watched."""

from collections import Counter

import pytest
import torch

from glassformer.bench import stopwatch
from glassformer.bench.stopwatch import REST, Stopwatch, around
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import Hypothesis, SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

LAYERS, TOKENS = 2, 6


@pytest.fixture
def model() -> Transformer:
    sizes = {"vocab_size": 40, "d_model": 16, "n_heads": 2, "d_ff": 32}
    model = build("tiny", **sizes, encoder_layers=1, decoder_layers=LAYERS).eval()
    assert isinstance(model, Transformer)
    return model


def answers(model: Transformer) -> list[list[Hypothesis]]:
    sources = torch.arange(4, 14).view(2, 5).tolist()
    options = SearchOptions(3, min_length=TOKENS, max_length=TOKENS)
    return search(TorchDecoder(model), sources, BOS, EOS, options)


def test_time_is_charged_to_the_innermost_part(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 4.0, 4.5, 10.0])
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.part("search"):
        with watch.part("encoding"):
            pass
        with watch.part("norms"):
            pass
    spent = {part: seconds for part, seconds in watch.seconds.items() if seconds}
    assert spent == {"encoding": 2.0, "norms": 0.5, "search": 7.5}


def test_every_call_of_a_timed_module_is_counted(model: Transformer) -> None:
    calls, open_parts = Counter[str](), list[str]()

    def enter(name: str, part: str) -> None:
        calls[part] += 1
        open_parts.append(part)

    with around(model, enter, open_parts.pop):
        answers(model)
    assert open_parts == []
    assert calls == {
        REST: TOKENS,  # what was read first, and a step for each token but the last
        "encoding": 1 + LAYERS,  # the encoder, and each layer's keys and values once
        "output projection": TOKENS,
        "norms": (3 * LAYERS + 1) * TOKENS,
        **dict.fromkeys(("self-attention", "cross-attention", "feed-forward"), LAYERS * TOKENS),
    }


def test_hooks_do_not_change_outputs_and_are_removed(model: Transformer) -> None:
    err = answers(model)
    with around(model, lambda *_: 1, lambda: 2):
        assert answers(model) == err
    with pytest.raises(KeyError), around(model, lambda *_: None, lambda: None):
        raise KeyError
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
