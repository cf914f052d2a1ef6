"""A translator of both directions that was never trained."""

import torch

from glassformer.checkpoint import Checkpoint, as_arrays, weights_of
from glassformer.config import DataSettings, RunSettings
from glassformer.data.direction import tags
from glassformer.data.tokenizer import Tokenizer
from glassformer.model.build import build

ENGLISH = ["the dog sees a cat", "where is the house?", "some tea, please!", "I am here"]
FRENCH = ["le chien voit un chat", "où est la maison ?", "du thé, s'il vous plaît !", "je suis là"]
LONGEST = 40
TAGS = tags(DataSettings(directions="both"))
# A few characters only: answers of random weights then hold quotes, marks and apostrophes.
TOKENIZER = Tokenizer.train(
    [*ENGLISH, *FRENCH, "\" ? ! ' l'a ..."] * 5, 70, identity=True, tags=TAGS
)


def two_way(directions: str = "both", typography: bool = True, seed: int = 0) -> Checkpoint:
    """Return a checkpoint with weights so large that answers depend on the text."""
    settings = RunSettings.of(
        model={
            "kind": "translator", "vocab_size": len(TOKENIZER), "d_model": 16, "n_heads": 2,
            "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "tie_target_output": False,
        },
        data={"max_length": LONGEST, "directions": directions, "typography": typography},
    )  # fmt: skip
    torch.manual_seed(seed)
    weights = weights_of(build(settings.model))
    large = {n: torch.randn_like(w) / 2 for n, w in weights.items() if w.dim() == 2}
    return Checkpoint(settings, as_arrays(weights | large), {"joint": TOKENIZER})
