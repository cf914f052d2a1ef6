"""The contenders of `bench generate`: a language model with the same weights in three libraries.

Prompts and outputs are token ids. A contender runs in a process of its own, which imports its
library only and reports its own peak of memory.
"""

from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from glassformer.machine import peak_memory

Ids = list[list[int]]
INT8, FP32 = "glassformer int8", "glassformer fp32"
HUGGING_FACE, LLAMA_CPP = "Hugging Face fp32", "llama.cpp Q8_0"
OURS, PEERS = (INT8, FP32), (HUGGING_FACE, LLAMA_CPP)
Q8_0 = 7  # llama.cpp's number of the type of a file


class Answer(NamedTuple):
    seconds: float
    outputs: Ids
    peak: int | None  # bytes of the process; None where the system does not tell


# (prompts, new tokens of each) -> answer
Contender = Callable[[Ids, int], Answer]
Continue = Callable[[list[int], int], list[int]]


class Files(NamedTuple):
    """The same weights for every contender."""

    ours: Path  # a checkpoint
    hugging_face: Path
    gguf: Path | None  # the file that the checkpoint was imported from


def capable(files: Files) -> list[str]:
    """Return the contenders whose libraries and files are there."""
    names = [*OURS]
    if find_spec("transformers"):
        names.append(HUGGING_FACE)
    if files.gguf is not None and find_spec("llama_cpp"):
        names.append(LLAMA_CPP)
    return names


def load(name: str, files: Files, threads: int) -> Contender:
    """Load a contender. It continues each prompt greedily by a fixed number of tokens."""
    if name in OURS:
        go_on = _ours(files.ours, name == INT8, threads)
    elif name == HUGGING_FACE:
        go_on = _hugging_face(files.hugging_face, threads)
    else:
        assert files.gguf is not None
        go_on = _llama_cpp(files.gguf, threads)

    def run(prompts: Ids, length: int) -> Answer:
        begin = perf_counter()
        outputs = [go_on(prompt, length) for prompt in prompts]
        return Answer(perf_counter() - begin, outputs, peak_memory())

    return run


def _ours(folder: Path, int8: bool, threads: int) -> Continue:
    from glassformer.decode.options import SearchOptions
    from glassformer.decode.search import search
    from glassformer.pipeline import load_generator

    model = load_generator(folder, int8, threads=threads)

    def go_on(prompt: list[int], length: int) -> list[int]:
        first, *rest = prompt
        n = len(rest) + length
        options = SearchOptions(beam_size=1, length_penalty=0.0, min_length=n, max_length=n)
        found = search(
            model.decoder, None, first, model.tokenizer.eos_id, options, [rest], bos_is_mark=False
        )
        return found[0][0].ids[len(rest) :]

    return go_on


def _hugging_face(folder: Path, threads: int) -> Continue:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa").eval()

    def go_on(prompt: list[int], length: int) -> list[int]:
        ids = torch.tensor([prompt])
        how = {"min_new_tokens": length, "max_new_tokens": length, "do_sample": False}
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **how)
        return [int(i) for i in out[0, len(prompt) :]]

    return go_on


def _llama_cpp(gguf: Path, threads: int) -> Continue:
    from llama_cpp import Llama

    model: Any = Llama(
        str(gguf), n_ctx=2_048, n_threads=threads, n_threads_batch=threads, verbose=False
    )
    # Ours and Hugging Face never choose the end mark before the length is reached.
    without_end = {model.token_eos(): float("-inf")}

    def go_on(prompt: list[int], length: int) -> list[int]:
        model.reset()

        def no_end(_: Any, scores: Any) -> Any:
            for token, bias in without_end.items():
                scores[token] = bias
            return scores

        tokens = model.generate(prompt, top_k=1, temp=0.0, logits_processor=[no_end])
        return list(islice(tokens, length))

    return go_on


def write_q8_0(gguf: Path, target: Path) -> Path:
    """Write a GGUF file with its matrices as Q8_0, by llama.cpp's own quantisation."""
    import llama_cpp

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize = Q8_0, True
    if llama_cpp.llama_model_quantize(str(gguf).encode(), str(target).encode(), options):
        raise RuntimeError(f"llama.cpp could not quantise {gguf}")
    return target
