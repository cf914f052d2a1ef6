"""Write a model for another library in one call, and compare the two."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer import checkpoint, pretrained
from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.errors import InputError, did_you_mean
from glassformer.extras import require_torch
from glassformer.pipeline import Generator, Translator, load

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
    """Write a translator or a language model for another library; `glassformer export`.

    model   folder of a run or checkpoint, or a bundled model.
    to      "hf", "ctranslate2", "onnx" or "torch"; of a language model "hf".
    output  the folder to write.
    int8    weights in eight bits, where the format has them.
    texts   sentences that both sides translate greedily, to be compared.
    """
    require_torch("An export")
    from glassformer.interop.export_model import FORMATS, LANGUAGE_MODEL_FORMATS, compared_tokens

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
    ours = load(model, engine="torch")
    saved = checkpoint.read(checkpoint.find(pretrained.resolve(model)))
    if isinstance(ours, Translator):
        tokenizer, most, mine = ours.target_tokenizer, LONGEST - 1, _translated(ours, texts)
        answer = FORMATS[to](ours, saved, folder, int8)
    elif isinstance(ours, Generator) and to in LANGUAGE_MODEL_FORMATS:
        texts = ("", *_spelt(ours, texts))
        tokenizer, most = ours.tokenizer, compared_tokens(saved) - 1
        mine = _continued(ours, texts, most)
        answer = LANGUAGE_MODEL_FORMATS[to](ours, saved, folder, int8)
    else:
        raise InputError(
            f"{model} holds a {saved.settings.model.kind}, which is not exported to {to}.",
            "Translators are exported to every format, language models to hf.",
            f"Name the run of a translator{'' if to == 'hf' else ', or choose --to hf'}.",
        )
    found = zip(texts, mine, answer(list(texts)), strict=True)
    rows = [(x, _inner(a[:most], tokenizer), _inner(b[:most], tokenizer)) for x, a, b in found]
    different = [
        f"{text!r}: here {tokenizer.decode(a)!r}, there {tokenizer.decode(b)!r}"
        for text, a, b in rows
        if a != b
    ]
    return Exported(folder, to, len(rows) - len(different), len(rows), tuple(different))


def _translated(model: Translator, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of the greedy translation of each text."""
    source, target = model.source_tokenizer, model.target_tokenizer
    rows = [source.source(ids) for ids in source.encode(list(texts))]
    options = SearchOptions(beam_size=1, length_penalty=0.0, max_length=LONGEST)
    found = search(model.decoders, rows, target.bos_id, target.eos_id, options)
    return [one[0].ids for one in found]


def _continued(model: Generator, texts: Sequence[str], most: int) -> list[list[int]]:
    """Return the ids of each text and of its greedy continuation."""
    options = SearchOptions(beam_size=1, length_penalty=0.0, max_length=most)
    return [one[0].ids for one in model.n_best(texts, options)]


def _spelt(model: Generator, texts: Sequence[str]) -> list[str]:
    """Return the texts whose every character the model has a subword for."""
    rows = model.tokenizer.encode(texts)
    return [
        text for text, ids in zip(texts, rows, strict=True) if model.tokenizer.unk_id not in ids
    ]


def _inner(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids without marks."""
    marks = tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id
    return [i for i in ids if i not in marks]
