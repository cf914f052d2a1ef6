"""`glassformer export`: a model for another library, compared with ours."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as o


def export(
    model: o.Model,
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="hf, ctranslate2, onnx or torch.")
    ],
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights in 8 bits; of ctranslate2 and onnx.")
    ] = False,
) -> None:
    """Write a model for another library, and compare its answers with ours.

    Of a translator hf is a MarianMTModel with its tokenizer and card, onnx an encoder and a decoder
    step with a cache, torch the same two as programs of torch.export. Of a language model hf is a
    Llama or a GPT-2.
    """
    from glassformer.api.export_model import export as exported

    print(exported(model, to, output, int8=int8))
