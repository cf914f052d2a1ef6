"""Updates of JoeyNMT, in an environment of its own: `bench train` starts it by this file's path.

    python joeynmt_worker.py PLAN THREADS

PLAN is an .npz file: `settings` as JSON, and `source_0`, `input_0`, `labels_0` and so on for each
batch. Each line on standard input asks for one update with each batch; each answer is a line with
the seconds that they took.
"""

import json
import sys
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from joeynmt.model import build_model
from torch import Tensor


class Vocabulary(SimpleNamespace):
    """The part of JoeyNMT's vocabulary that its model reads."""

    def __len__(self) -> int:
        return int(self.size)


def configuration(s: dict[str, Any]) -> dict[str, Any]:
    """Return JoeyNMT's settings of a Transformer after the paper, with one embedding table."""
    common = {
        "type": "transformer",
        "num_heads": s["n_heads"],
        "hidden_size": s["d_model"],
        "ff_size": s["d_ff"],
        "dropout": s["dropout"],
        "embeddings": {"embedding_dim": s["d_model"], "scale": True, "dropout": s["dropout"]},
        "layer_norm": "post",
    }
    return {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": common | {"num_layers": s["encoder_layers"]},
        "decoder": common | {"num_layers": s["decoder_layers"]},
    }


def main(path: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    plan = np.load(path)
    s = json.loads(str(plan["settings"]))
    pad = s["pad_id"]
    marks = {"pad_index": pad, "bos_index": 1, "eos_index": 2, "unk_index": 3, "sep_index": None}
    vocabulary = Vocabulary(size=s["vocab_size"], specials=[], lang_tags=[], **marks)
    model = build_model(configuration(s), vocabulary, vocabulary)
    model.loss_function = "crossentropy", s["smoothing"]
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), s["rate"], (0.9, 0.98), fused=True)
    batches: list[list[Tensor]] = []
    while f"source_{len(batches)}" in plan:
        names = (f"{side}_{len(batches)}" for side in ("source", "input", "labels"))
        batches.append([torch.from_numpy(plan[name]) for name in names])

    def update(source: Tensor, target: Tensor, labels: Tensor) -> None:
        loss, *_ = model(
            return_type="loss",
            src=source,
            src_length=(source != pad).sum(1),
            src_mask=(source != pad).unsqueeze(1),
            trg_input=target,
            trg=labels,
            trg_mask=(labels != pad).unsqueeze(1),
        )
        (loss / len(source)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        optimizer.step()
        optimizer.zero_grad()

    for _ in sys.stdin:
        begin = perf_counter()
        for batch in batches:
            update(*batch)
        sys.stdout.write(f"{perf_counter() - begin}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
