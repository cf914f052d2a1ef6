"""`glassformer demo`: a translator trained on the embedded grammar, and a look inside it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.train import run_to_end
from glassformer.errors import MissingPackageError
from glassformer.extras import require_torch
from glassformer.progress import say

if TYPE_CHECKING:
    from glassformer.pipeline import Translator

SHOWN = 6


def demo(
    run: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the trained model.")
    ] = Path("runs/demo"),
    changes: o.Changes = None,
    device: o.TrainDevice = None,
) -> None:
    """Train an English to French translator in about three minutes, and show its output.

    A second run starts at once, with the model that is there.
    """
    require_torch("glassformer demo")

    from glassformer.checkpoint import RunFolder
    from glassformer.pipeline import load_translator

    resume = bool(RunFolder(run).steps())
    if resume:
        say(f"using the model in {run}; remove that folder to train a new one")
    run_to_end(recipe(), changes or [], run=run, resume=resume, device=device)
    show(load_translator(run, engine="torch", device=device or "auto"), run)


def recipe() -> Path:
    """Return the recipe of the demo, which is in the package."""
    return Path(__file__).with_name("demo.toml")


def show(translator: "Translator", run: Path) -> None:
    """Print held-out translations, alignments, the score of both, and next commands."""
    from glassformer.data import grammar
    from glassformer.evaluate.bleu import bleu
    from glassformer.inspect.alignment import align, error_rates
    from glassformer.inspect.figures import links_figure
    from glassformer.picture import save

    pairs = list(grammar.pairs("test", 1_000))
    outputs = translator.translate([pair.source for pair in pairs], beam_size=1, split=False)
    print("Combinations of words that were never trained on:\n")
    for pair, answer in list(zip(pairs, outputs, strict=True))[:SHOWN]:
        print(f"  english    {pair.source}\n  output     {answer}\n  reference  {pair.target}\n")
    score = bleu(outputs, [pair.target for pair in pairs])
    exact = sum(a == pair.target for a, pair in zip(outputs, pairs, strict=True)) / len(pairs)
    print(f"BLEU {score:.1f} on {len(pairs):,} such sentences, {exact:.1%} exact matches")

    head = next(iter(error_rates(translator, list(grammar.pairs("valid", 100)))))
    rate = error_rates(translator, pairs[:200])[head]
    print(f"alignment error rate {rate:.1%} of cross-attention ({head}, chosen on other sentences)")
    pair = max(pairs[:50], key=lambda pair: len(pair.source_words))
    ((attention, links),) = align(translator, [pair], head)
    gold, words = pair.alignment, (pair.source_words, pair.target_words)
    title = f"{head}: {len(links & gold)} of {len(gold)} true links, {len(links)} found"
    picture = run / "alignment.png"
    try:
        save(links_figure(attention, links, *words, title, gold), picture)
        print(f"attention beside the true alignment: {picture}\n")
    except MissingPackageError as error:  # the only thing here that needs it
        print(f"no attention picture: {error.what} {error.remedy}\n")
    print(NEXT.format(run=run))


NEXT = """\
Next:
  glassformer describe tiny                  what such a model is made of
  glassformer train reverse                  an encoder learns to reverse, in a minute
  glassformer data list                      real data to train on
  glassformer train multi30k                 a translator of picture captions
"""
