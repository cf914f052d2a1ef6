"""Write a model for another library in one call, and compare the two."""

from dataclasses import dataclass
from pathlib import Path

from glassformer import checkpoint, pretrained
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.errors import InputError, did_you_mean
from glassformer.extras import require_torch
from glassformer.pipeline import Translator, load_translator

LONGEST = 60  # tokens of an answer that is compared
TEXTS = (
    "Two dogs are playing in the snow.",
    "A man is riding a red bicycle.",
    "The old woman reads a book in the garden.",
    "Where is the train station?",
    "A child sees three birds.",
)


@dataclass(frozen=True)
class Exported:
    """An exported model, and how many check sentences it translates greedily to the same tokens."""

    folder: Path
    to: str
    same: int
    checked: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"written to {self.folder}",
            f"{self.to}: {self.same} of {self.checked} greedy answers have the same tokens",
        ]
        return "\n".join([*lines, *self.differences])


def export(
    model: str | Path,
    to: str,
    output: str | Path,
    *,
    int8: bool = False,
    texts: tuple[str, ...] = TEXTS,
) -> Exported:
    """Write a translator for another library; `glassformer export`.

    model   folder of a run or checkpoint, or a bundled model.
    to      "hf", "ctranslate2", "onnx" or "torch".
    output  the folder to write.
    int8    weights in eight bits, where the format has them.
    texts   sentences that both sides translate greedily, to be compared.
    """
    require_torch("An export")
    from glassformer.interop.export_model import FORMATS

    if to not in FORMATS:
        raise InputError(
            f"There is no format {to!r}.",
            f"Models are exported to {', '.join(FORMATS)}.",
            did_you_mean(to, FORMATS, "For example to='ctranslate2'."),
        )
    folder = Path(output)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already.", "Its files could be mixed up.", "Name a new folder."
        )
    ours = load_translator(model, engine="torch")
    saved = checkpoint.read(checkpoint.find(pretrained.resolve(model)))
    answer = FORMATS[to](ours, saved, folder, int8)
    theirs = [_inner(ids, ours) for ids in answer(list(texts))]
    mine = [_inner(ids, ours) for ids in _greedy(ours, texts)]
    pairs = [(x, a, b) for x, a, b in zip(texts, mine, theirs, strict=True) if a != b]
    decode = ours.target_tokenizer.decode
    shown = [f"{x!r}: here {decode(a)!r}, there {decode(b)!r}" for x, a, b in pairs]
    return Exported(folder, to, len(texts) - len(pairs), len(texts), tuple(shown))


def _greedy(model: Translator, texts: tuple[str, ...]) -> list[list[int]]:
    source, target = model.source_tokenizer, model.target_tokenizer
    rows = [source.source(ids) for ids in source.encode(list(texts))]
    options = SearchOptions(beam_size=1, length_penalty=0.0, max_length=LONGEST)
    found = search(model.decoders, rows, target.bos_id, target.eos_id, options)
    return [one[0].ids for one in found]


def _inner(ids: list[int], model: Translator) -> list[int]:
    """Return the ids without marks."""
    target = model.target_tokenizer
    return [i for i in ids[: LONGEST - 1] if i not in (target.bos_id, target.eos_id, target.pad_id)]
