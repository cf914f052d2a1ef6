"""Hugging Face's Llama with the weights of an imported GGUF model, to compare with."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer import checkpoint
from glassformer.interop.export_decoder import hugging_face_decoder

LogProbs = Callable[[list[int]], NDArray[np.float32]]


def llama_of(folder: Path) -> LogProbs:
    """Return a function that gives log-probabilities after each id by LlamaForCausalLM."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config, tensors = hugging_face_decoder(checkpoint.read(folder))
    theirs = LlamaForCausalLM(LlamaConfig(**config)).eval()
    if config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    theirs.load_state_dict({n: torch.tensor(np.ascontiguousarray(a)) for n, a in tensors.items()})

    def log_probs(ids: list[int]) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits = theirs(torch.tensor([ids])).logits[0]
        values: NDArray[np.float32] = logits.log_softmax(-1).numpy()
        return values

    return log_probs
