"""`glassformer import`: a model of another library as a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A GGUF or llama2.c file, or a folder of Hugging Face, CTranslate2 or Argos.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Name of the model.", show_default="SOURCE's own name"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write.",
            show_default="NAME in the user's cache, where every command finds it",
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Round the weights to 8 bits, as `quantize` does.")
    ] = False,
) -> None:
    """Import a model of another library: BERT, BART, Marian, GPT-2, Llama.

    Nothing is unpickled. An error names the key, the tensor or the architecture that does not fit.
    """
    from glassformer.api.import_model import import_model as imported

    print(imported(source, name, output, int8=int8))
