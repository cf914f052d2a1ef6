"""Export to ONNX: a translator as an encoder and one step of the decoder; a classifier.

    encoder.onnx   source (B, S), mask (B, S)  →  cross_keys, cross_values (L, B, G, S, K)
    decoder.onnx   token (B, 1), keys, values (L, B, G, P, K), cross_keys, cross_values, mask
                   →  logits (B, V), keys, values (L, B, G, P + 1, K)

    one file       ids (B, S)  →  logits (B, C), of a classifier

Before the first step `keys` and `values` have P = 0 positions. Axes B, S and P are free.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import MissingPackageError
from glassformer.model.attention import replaced_kernels, scaled_dot_product_attention
from glassformer.model.cache import KeyValueCache, LayerCache
from glassformer.model.classifier import TransformerClassifier
from glassformer.model.transformer import Transformer

ENCODER_INPUTS, ENCODER_OUTPUTS = ("source", "mask"), ("cross_keys", "cross_values")
DECODER_INPUTS = ("token", "keys", "values", "cross_keys", "cross_values", "mask")
DECODER_OUTPUTS = ("logits", "new_keys", "new_values")


class _Kept(KeyValueCache):
    """Keys and values of a layer that grow by concatenation: a graph has no memory of its own."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        super().__init__(k, v, 0)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.k, self.v = torch.cat((self.k, k), 2), torch.cat((self.v, v), 2)
        return self.k, self.v

    def read(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return self.k, self.v


class EncoderGraph(nn.Module):
    """The encoder, and the keys and values of cross-attention of every layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.model.encoder(source, mask[:, None, None, :])
        layers: Any = self.model.decoder.layers
        pairs = [layer.cross_attention.keys_values(memory) for layer in layers]
        return torch.stack([k for k, _ in pairs]), torch.stack([v for _, v in pairs])


class DecoderGraph(nn.Module):
    """One step of the decoder: the next token's logits, and the longer cache."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        token: Tensor,
        keys: Tensor,
        values: Tensor,
        cross_keys: Tensor,
        cross_values: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        decoder = self.model.decoder
        positions = torch.arange(keys.size(3) + 1, device=token.device)
        x = decoder.embed(token, positions[-1:])
        rotate, bias = decoder.geometry(positions[-1:], positions)
        kept: list[_Kept] = []
        layers: Any = decoder.layers
        for i, layer in enumerate(layers):
            own, cross = _Kept(keys[i], values[i]), _Kept(cross_keys[i], cross_values[i])
            cache = LayerCache(own, cross)
            x = layer(x, None, rotate, bias, None, mask[:, None, None, :], cache)
            kept.append(own)
        logits = self.model.output(decoder.final_norm(x))[:, 0]
        return logits, torch.stack([c.k for c in kept]), torch.stack([c.v for c in kept])


def graphs(model: Transformer) -> dict[str, tuple[nn.Module, tuple[Tensor, ...], tuple[Any, ...]]]:
    """Return each graph with example inputs and its free axes."""
    attention: Any = model.encoder.layers[0].self_attention
    n_layers, shape = len(model.decoder.layers), (2, attention.n_kv_heads)
    source, mask = torch.full((2, 5), 3), torch.ones(2, 5, dtype=torch.bool)
    own = torch.zeros(n_layers, *shape, 3, attention.d_k)
    cross = torch.zeros(n_layers, *shape, 5, attention.d_k)
    b, s, p = (torch.export.Dim(name, min=1, max=4_096) for name in ("batch", "length", "past"))
    texts, cached, read = {0: b, 1: s}, {1: b, 3: p}, {1: b, 3: s}
    step = (torch.full((2, 1), 3), own, own.clone(), cross, cross.clone(), mask)
    return {
        "encoder": (EncoderGraph(model), (source, mask), (texts, texts)),
        "decoder": (
            DecoderGraph(model), step, ({0: b}, cached, cached, read, read, {0: b, 1: s}),
        ),
    }  # fmt: skip


def to_onnx(model: Transformer, folder: Path, int8: bool = False) -> None:
    """Write encoder.onnx and decoder.onnx, in fp32 or with weights in eight bits."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "encoder": (ENCODER_INPUTS, ENCODER_OUTPUTS),
        "decoder": (DECODER_INPUTS, DECODER_OUTPUTS),
    }
    with replaced_kernels(model, lambda *_: scaled_dot_product_attention):
        for name, (graph, inputs, axes) in graphs(model.eval()).items():
            path = folder / f"{name}.onnx"
            _export(graph, inputs, axes, *names[name], path)
            if int8:
                quantise_onnx(path, path)


def classifier_to_onnx(model: TransformerClassifier, path: Path) -> None:
    """Write a classifier in fp32."""
    batch, length = (torch.export.Dim(name, min=1, max=4_096) for name in ("batch", "length"))
    ids = torch.full((2, 5), model.pad_id + 3)
    _export(model, (ids,), ({0: batch, 1: length},), ("ids",), ("logits",), path)


def _export(
    graph: nn.Module, inputs: tuple[Tensor, ...], axes: tuple[Any, ...],
    input_names: tuple[str, ...], output_names: tuple[str, ...], path: Path,
) -> None:  # fmt: skip
    try:
        import onnxruntime  # noqa: F401  to run what is exported
        import onnxscript  # noqa: F401  torch's exporter needs it
    except ImportError:
        raise MissingPackageError("onnxruntime", "ONNX", "peers") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of calls of the exporter's own
        torch.onnx.export(
            graph.eval(), inputs, str(path), dynamo=True, dynamic_shapes=axes,
            input_names=input_names, output_names=output_names, external_data=False, verbose=False,
        )  # fmt: skip


def quantise_onnx(path: Path, to: Path) -> None:
    """Write a model with weights in eight bits; activations get theirs as it runs."""
    import onnx
    import onnxruntime.quantization as quantization

    exported = onnx.load(path)
    # Shapes of all values: the quantiser transposes weights, and would find their old shapes here.
    del exported.graph.value_info[:]
    quantization.quantize_dynamic(exported, str(to), per_channel=True)


def to_torch(model: Transformer, folder: Path) -> None:
    """Write encoder.pt2 and decoder.pt2, programs of torch.export with the same inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    with replaced_kernels(model, lambda *_: scaled_dot_product_attention):
        for name, (graph, inputs, axes) in graphs(model.eval()).items():
            program = torch.export.export(graph.eval(), inputs, dynamic_shapes=axes, strict=False)
            torch.export.save(program, folder / f"{name}.pt2")


class OnnxTranslator:
    """Greedy decoding of the two graphs in ONNX Runtime."""

    def __init__(self, folder: Path, layers: int, heads: int, d_k: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        paths = [str(folder / f"{name}.onnx") for name in ("encoder", "decoder")]
        self.encoder, self.decoder = (onnxruntime.InferenceSession(p, options) for p in paths)
        self.empty = np.zeros((layers, 1, heads, 0, d_k), np.float32)

    def translate(
        self, source: list[int], bos: int, eos: int, longest: int, banned: list[int]
    ) -> list[int]:
        """Return the ids of the greedy answer, with the end mark."""
        mask = np.ones((1, len(source)), bool)
        cross = self.encoder.run(None, {"source": np.array([source]), "mask": mask})
        keys = values = self.empty
        ids = [bos]
        while ids[-1] != eos and len(ids) <= longest:
            inputs = (np.array([ids[-1:]]), keys, values, *cross, mask)
            given = dict(zip(DECODER_INPUTS, inputs, strict=True))
            logits, keys, values = self.decoder.run(None, given)
            logits[0, banned] = -np.inf
            ids.append(int(logits[0].argmax()))
        return ids[1:]
