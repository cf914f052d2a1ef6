"""The metric of a run that validates by BLEU or by a registered metric, for the training loop."""

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from glassformer.data.corpus import Row
from glassformer.errors import SettingsError
from glassformer.evaluate.bleu import bleu_of
from glassformer.pipeline import Translator
from glassformer.registry import registered

if TYPE_CHECKING:
    from glassformer.data.prepare import Prepared


def validation_bleu(data: "Prepared") -> Callable[[Any], dict[str, float]] | None:
    """Return a function that scores a model on each validation set, and gives the mean.

    The score is BLEU or a registered metric. Return None if the run validates by loss or accuracy.
    """
    from glassformer.decode.torch_decoder import TorchDecoder

    metric = data.settings.train.metric
    if metric in ("loss", "accuracy"):
        return None
    if data.settings.model.kind != "translator" or not data.valid_rows:
        raise SettingsError(
            f"train.metric = {metric!r} does not go with a {data.settings.model.kind} "
            f"on {data.settings.data.name!r}.",
            "It compares translations of text.",
            "Set train.metric = 'accuracy' or 'loss'.",
        )

    def score(translator: Translator, rows: list[Row]) -> float:
        if metric == "bleu":
            return bleu_of(translator, rows)
        outputs = translator.translate([row[0] for row in rows], beam_size=1, split=False)
        return float(registered("metric")[metric](outputs, [row[1] for row in rows]))

    def evaluate(model: Any) -> dict[str, float]:
        translator = Translator(TorchDecoder(model), data.tokenizers, data.settings)
        if not data.valid_sets:
            return {metric: score(translator, data.valid_rows)}
        scores = {
            f"{metric}/{one.name}": score(translator.towards(one.to), one.rows)
            for one in data.valid_sets
        }
        return {metric: fmean(scores.values()), **scores}

    return evaluate
