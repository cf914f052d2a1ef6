"""Train a classifier on a list of texts with labels, then use it.

    python examples/train_classifier.py        about ten seconds

With texts of your own, replace `examples`. Real text needs more of it and more updates: see
docs/train.md.
"""

import json
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import glassformer as gf

SUBJECTS = ["The film", "This book", "The meal", "Our hotel", "The concert", "That lesson"]
VERBS = ["was", "is", "seemed", "turned out"]
WORDS = {
    "good": ["wonderful", "a joy", "excellent", "charming", "worth every cent"],
    "bad": ["terrible", "a waste of time", "boring", "awful", "not worth a cent"],
}

RECIPE = """
model = { kind = "classifier", vocab_size = 200, d_model = 32, d_ff = 64, encoder_layers = 1 }

[data]
name = "files"
train = ["TRAIN"]
valid = ["VALID"]
columns = ["text", "label"]

[train]
threads = 1
learning_rate = 0.003
warmup = 20
validate_every = 50
metric = "accuracy"
"""


def examples() -> list[tuple[str, str]]:
    rows = [
        (f"{subject} {verb} {word}.", label)
        for label, words in WORDS.items()
        for subject, verb, word in product(SUBJECTS, VERBS, words)
    ]
    return random.Random(1).sample(rows, len(rows))


def train(rows: list[tuple[str, str]], folder: Path, steps: int = 100) -> gf.Classifier:
    """Write `rows` and a recipe to `folder`, train there, return the classifier."""
    files = {"TRAIN": rows[50:], "VALID": rows[:50]}
    recipe = RECIPE
    for name, part in files.items():
        path = folder / f"{name.lower()}.jsonl"
        lines = [json.dumps({"text": text, "label": label}) for text, label in part]
        path.write_text("\n".join(lines) + "\n", "utf-8")
        recipe = recipe.replace(name, path.as_posix())
    (folder / "recipe.toml").write_text(recipe, "utf-8")
    command = [sys.executable, "-m", "glassformer", "train", str(folder / "recipe.toml")]
    subprocess.run([*command, f"train.max_steps={steps}", "--run", str(folder / "run")], check=True)
    return gf.load(folder / "run")


if __name__ == "__main__":
    folder = Path("runs/examples-classifier")
    folder.mkdir(parents=True)
    classifier = train(examples(), folder)
    for text in ["The lesson was charming.", "Our meal is a waste of time."]:
        print(text, classifier.classify([text])[0])
