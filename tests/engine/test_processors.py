"""The engine compiled for other processors than this one: each set of instructions is right.

Each test compiles the whole engine in a process of its own.
"""

from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from engine.child import answer, save
from engine.toys import arrays, engine, sentences, toy
from glassformer.data.tokenizer import BOS
from glassformer.quantize import dequantise_weights, quantise_weights

SIZES = [(1, 2, 16), (2, 64, 64), (3, 21, 65), (7, 130, 200), (13, 517, 17)]
PROCESSORS = {
    "avx2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "generic": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""},
    "avx-vnni": {"NUMBA_CPU_NAME": "alderlake", "NUMBA_CPU_FEATURES": ""},
}
NEEDS = {"avx2": ("avx2", "fma"), "generic": (), "avx-vnni": ("avxvnni",)}
COMPUTED = """
folder, sizes = sys.argv[1], json.loads(sys.argv[2])
exact = []
for size in sizes:
    ours, expected = integer_product(*size)
    exact.append(bool((np.rint(ours) == expected).all()))
questions = dict(np.load(Path(folder) / "questions.npz"))
source, inputs = questions["source"].tolist(), questions["inputs"].tolist()
models = {"fp32": load(folder, int8=False), "int8": load(folder)}
errors = {
    name: float(np.abs(log_probs(model, source, inputs) - questions["expected"]).max())
    for name, model in models.items()
}
many = [source, source[3:], source[7:]] * 5
same = [
    found(model, many, **way)[:3] == [found(model, [one], **way)[0] for one in many[:3]]
    for model in models.values()
    for way in WAYS.values()
]
print(json.dumps([kernel_name(), exact, errors, same, "torch" in sys.modules]))
"""


@pytest.mark.parametrize("kernel", PROCESSORS)
def test_each_set_of_instructions_gives_exact_integers_and_the_same_bits(
    kernel: str, tmp_path: Path
) -> None:
    features = binding.get_host_cpu_features()
    if not all(features.get(name) for name in NEEDS[kernel]):
        pytest.skip(f"this processor has no {kernel}")
    model = toy(decoder_layers=1)
    eight = quantise_weights(arrays(model))
    source, inputs = sentences(17)[0], [BOS, *sentences(18, seed=1)[0]]
    # fp32 on this processor is compared with model/ in equivalence/test_engine.py.
    reference = type(engine(model))(model.settings, dequantise_weights(eight))
    expected = reference.start([source], 1, 1, len(inputs)).prefill(np.array([inputs])).rows()[0]
    np.savez(tmp_path / "questions.npz", source=source, inputs=inputs, expected=expected)
    environment = {"GLASSFORMER_KERNEL": kernel, "GLASSFORMER_CACHE": str(tmp_path / "cache")}
    name, exact, errors, same, torch_is_imported = answer(
        COMPUTED,
        save(tmp_path, model.settings, eight),
        SIZES,
        **environment | PROCESSORS[kernel],
    )
    assert name == kernel
    assert all(exact), "integer sums"
    assert errors["fp32"] < 1e-4
    assert errors["int8"] < (0.6 if kernel == "avx2" else 0.3), "seven bits with AVX2, else eight"
    assert all(same), "alone and in a batch"
    assert not torch_is_imported
