"""Time by part of a translator, measured with hooks on the modules of the model.

The clock runs for exactly one part at a time, the innermost that is open, so the parts add up to
the whole and nothing is counted twice:

    search               ━━━                  ━━━
    the rest of a step      ━━    ━━      ━━━━
    norms                     ━━━━
    self-attention                  ━━━━━━
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter

from torch import nn

from glassformer.measure import Run
from glassformer.model.decoder import DecoderLayer
from glassformer.model.norm import LayerNorm, RMSNorm
from glassformer.model.transformer import Transformer

SUBWORDS, ENCODING, SEARCH = "subwords", "encoding", "search"
REST, OUTPUT = "the rest of a step", "output projection"
IN_A_STEP = (
    "self-attention",
    "cross-attention",
    "feed-forward",
    OUTPUT,
    "norms",
    REST,
)
PARTS = (SUBWORDS, ENCODING, *IN_A_STEP, SEARCH)


class Stopwatch:
    """Seconds by part; the innermost part that is open has the clock."""

    def __init__(self, wait: Run = lambda: None) -> None:
        self._wait = wait  # for a GPU, whose work would else be counted where it is waited for
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._open: list[str] = []
        self._since = 0.0

    def enter(self, part: str) -> None:
        self._book()
        self._open.append(part)

    def leave(self) -> None:
        self._book()
        self._open.pop()

    def _book(self) -> None:
        self._wait()
        now = perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self.enter(name)
        yield
        self.leave()


def parts_of(model: Transformer) -> list[tuple[str, nn.Module, str]]:
    """Return (name, module, part) of every module that is timed."""
    parts: dict[nn.Module, str] = {
        model.encoder: ENCODING,
        model.decoder: REST,
        model.output: OUTPUT,
    }
    for layer in model.decoder.layers:
        assert isinstance(layer, DecoderLayer) and layer.cross_attention is not None
        parts[layer.self_attention] = "self-attention"
        parts[layer.cross_attention] = "cross-attention"
        parts[layer.cross_attention.kv] = ENCODING  # of the source, once
        parts[layer.feed_forward] = "feed-forward"
    norms = [m for m in model.decoder.modules() if isinstance(m, LayerNorm | RMSNorm)]
    parts |= dict.fromkeys(norms, "norms")
    return [(name, m, parts[m]) for name, m in model.named_modules() if m in parts]


@contextmanager
def around(model: Transformer, enter: Callable[[str, str], object], leave: Run) -> Iterator[None]:
    """Call enter(name, part) and leave() before and after each watched module."""

    # Whatever a hook returns would replace the module's input or output: these return nothing.
    def before(name: str, part: str, *_: object) -> None:
        enter(name, part)

    def after(*_: object) -> None:
        leave()

    with ExitStack() as hooks:
        for name, module, part in parts_of(model):
            hooks.enter_context(module.register_forward_pre_hook(partial(before, name, part)))
            hooks.enter_context(module.register_forward_hook(after))
        yield
