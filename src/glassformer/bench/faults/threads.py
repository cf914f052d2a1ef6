"""Campaign `threads`: eight threads with one loaded model get what one thread gets, to the bit."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.data import grammar
from glassformer.pipeline import Translator, load_translator

MODEL = "captions-en-fr"  # the fastest of the bundled translators
THREADS, SENTENCES, AT_ONCE = 8, 1_000, 125  # sentences of a thread: in all, and in a trial


def begin(folder: Path) -> Trial:
    """Translate sentences by one thread; then by eight at once, each in its own order."""
    model = load_translator(MODEL)
    pairs = list(grammar.pairs("test", SENTENCES))

    def trial(seed: int) -> Result:
        start = seed * AT_ONCE % SENTENCES
        texts = [pair.source for pair in pairs[start : start + AT_ONCE]]
        expected = {text: answer(model, text) for text in texts}

        def ask(thread: int) -> list[str]:
            order = Random(seed * THREADS + thread).sample(texts, len(texts))
            return [text for text in order if answer(model, text) != expected[text]]

        with ThreadPoolExecutor(THREADS) as pool:
            wrong = [text for texts in pool.map(ask, range(THREADS)) for text in texts]
        lost = tuple(f"another translation or score of {text!r}" for text in wrong)
        return Result(THREADS * len(texts), lost)

    return trial


def answer(model: Translator, text: str) -> tuple[str, str]:
    """Return the translation with the bits of its score."""
    ((best, *_),) = model.n_best([text], model.options())
    return best.text, float(best.score).hex()


CAMPAIGN = Campaign("threads", begin, trials=SENTENCES // AT_ONCE, quick=1, seconds=300.0)
