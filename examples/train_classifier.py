"""Train a classifier on a list of texts with labels, then use it.

    python examples/train_classifier.py        about ten seconds

With texts of your own, replace `examples`. Real text needs more of it and more updates: see
docs/train.md.
"""

import random
from itertools import product
from pathlib import Path

import glassformer as gf

SUBJECTS = ["The film", "This book", "The meal", "Our hotel", "The concert", "That lesson"]
VERBS = ["was", "is", "seemed", "turned out"]
WORDS = {
    "good": ["wonderful", "a joy", "excellent", "charming", "worth every cent"],
    "bad": ["terrible", "a waste of time", "boring", "awful", "not worth a cent"],
}
SETTINGS = {
    "model": {"kind": "classifier", "vocab_size": 200, "d_model": 32, "d_ff": 64,
              "encoder_layers": 1},
    "train": {"threads": 1, "learning_rate": 0.003, "warmup": 20, "validate_every": 50,
              "metric": "accuracy"},
}  # fmt: skip


def examples() -> list[tuple[str, str]]:
    rows = [
        (f"{subject} {verb} {word}.", label)
        for label, words in WORDS.items()
        for subject, verb, word in product(SUBJECTS, VERBS, words)
    ]
    return random.Random(1).sample(rows, len(rows))


def train(rows: list[tuple[str, str]], folder: Path, steps: int = 100) -> gf.Classifier:
    """Train on `rows` in `folder`; every tenth row validates."""
    run = gf.train(SETTINGS, rows, run=folder, changes={"train": {"max_steps": steps}})
    return run.load()


if __name__ == "__main__":
    classifier = train(examples(), Path("runs/examples-classifier"))
    for text in ["The lesson was charming.", "Our meal is a waste of time."]:
        print(text, classifier.classify([text])[0])
