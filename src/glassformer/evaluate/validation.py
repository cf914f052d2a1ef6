"""The metric of a run that validates by BLEU, which the training loop is handed as a function."""

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingsError
from glassformer.evaluate.bleu import bleu_of
from glassformer.pipeline import Translator

if TYPE_CHECKING:
    from glassformer.data.prepare import Prepared


def validation_bleu(data: "Prepared") -> Callable[[Any], dict[str, float]] | None:
    """Return a function that computes the BLEU of a model on each validation set, and their mean.

    Return None if the run has another metric.
    """
    from glassformer.decode.torch_decoder import TorchDecoder

    if data.settings.train.metric != "bleu":
        return None
    if data.settings.model.kind != "translator" or not data.valid_rows:
        raise SettingsError(
            f"train.metric = 'bleu' does not go with a {data.settings.model.kind} "
            f"on {data.settings.data.name!r}.",
            "BLEU compares translations of text.",
            "Set train.metric = 'accuracy' or 'loss'.",
        )

    def evaluate(model: Any) -> dict[str, float]:
        translator = Translator(TorchDecoder(model), data.tokenizers, data.settings)
        if not data.valid_sets:
            return {"bleu": bleu_of(translator, data.valid_rows)}
        scores = {
            f"bleu/{one.name}": bleu_of(translator.towards(one.to), one.rows)
            for one in data.valid_sets
        }
        return {"bleu": fmean(scores.values()), **scores}

    return evaluate
