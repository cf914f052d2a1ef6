"""Translate a large text file with Ray Data, on one machine or on a cluster.

pip install "ray[data]"
python examples/translate_on_ray.py corpus.txt corpus.fr.txt      # on every core of this machine
RAY_ADDRESS=auto python examples/translate_on_ray.py /shared/corpus.txt /shared/corpus.fr.txt

Each worker loads the model once and translates part after part. Source and target lie where every
machine reaches them. Run it again after a stop: it goes on with the parts that are missing.
"""

import sys
from pathlib import Path
from typing import Any

import ray

import glassformer as gf
from glassformer.pipeline.parts import LINES, Part, join, missing, parts_of, translate_part


class Translate:
    """A worker: one model, one thread, one part at a time."""

    def __init__(self, model: str, source: str, folder: str) -> None:
        self.source, self.folder = Path(source), Path(folder)
        self.translator = gf.load(model, threads=1)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = zip(batch["number"], batch["begin"], batch["end"], strict=True)
        parts = [Part(*map(int, row)) for row in rows]
        lines = [translate_part(self.translator, self.source, p, self.folder) for p in parts]
        return {"number": batch["number"], "lines": lines}


def main(
    source: str, target: str, model: str = "en-fr", workers: int | None = None, lines: int = LINES
) -> None:
    folder = Path(f"{target}.parts").resolve()
    parts = parts_of(Path(source), lines)
    todo = missing(parts, folder)
    print(f"{len(todo):,} of {len(parts):,} parts to translate", file=sys.stderr)
    if todo:
        ray.init(ignore_reinit_error=True)
        workers = workers or int(ray.cluster_resources()["CPU"])
        found = ray.data.from_items([vars(part) for part in todo]).repartition(len(todo))
        found = found.map_batches(
            Translate,
            fn_constructor_args=(model, str(Path(source).resolve()), str(folder)),
            batch_size=1,  # parts; a worker that dies loses one, and Ray gives it to another
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(todo))),
            num_cpus=1,
        )
        print(f"{found.sum('lines'):,} lines", file=sys.stderr)
    join(parts, folder, Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
