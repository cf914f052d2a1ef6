"""The experiment on wrong masks."""

from math import nan
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.lab.experiment import Measurement, Results
from glassformer.lab.experiments.masking import (
    ALONE,
    AS_TRAINED,
    LOSS,
    MASKS,
    PADDED,
    TASK,
    gradient_to_padding,
    judge,
    refusals,
    translator,
    without_padding,
)
from glassformer.lab.learning import Outputs, greedy_decode, small_model
from glassformer.model.masks import padding_mask, target_mask
from lab.fakes import quick_run, runs

IDS = torch.tensor([[5, 6, 7, 0], [5, 6, 7, 8]])


def test_a_quick_run_measures_judges_and_draws(tmp_path: Path) -> None:
    finding = quick_run("masking", tmp_path)
    to_padding = {m: finding.results.summary("gradient to padding", mask=m).mean for m in MASKS}
    assert to_padding["right"] == to_padding["future leaked"] == 0
    assert min(to_padding[m] for m in ("padding on the wrong axis", "inverted", "none")) > 0


def corrupted(name: str, mask: Tensor, role: str) -> Tensor:
    full = mask.expand(2, 1, 4, 4)
    wrong = MASKS[name](full, role)
    assert wrong.shape == full.shape and wrong.dtype == torch.bool
    return wrong[:, 0]


def test_each_corruption_gives_its_mask() -> None:
    pad, causal = padding_mask(IDS), target_mask(IDS)
    real = IDS != 0
    by_query = corrupted("padding on the wrong axis", pad, "encoder")
    assert by_query.equal(real[:, :, None].expand(2, 4, 4))
    later = torch.ones(4, 4).tril().bool()
    assert corrupted("padding on the wrong axis", causal, "decoder").equal(real[:, :, None] & later)
    assert corrupted("padding on the wrong axis", pad, "cross").equal(pad[:, 0].expand(2, 4, 4))
    assert corrupted("inverted", causal, "decoder").equal(~causal[:, 0])
    assert corrupted("none", causal, "decoder").all()
    assert corrupted("future leaked", causal, "decoder").equal(real[:, None].expand(2, 4, 4))
    assert corrupted("future leaked", pad, "encoder").equal(pad[:, 0].expand(2, 4, 4))


def test_with_the_right_mask_the_kernel_equals_the_library() -> None:
    corrupted = translator(MASKS["right"], 3).eval()
    torch.manual_seed(3)
    plain = small_model(TASK, tie_source_target=False, tie_target_output=False).eval()
    batch = TASK.held_out(6)
    torch.testing.assert_close(corrupted(*batch.inputs), plain(*batch.inputs))
    assert greedy_decode(corrupted, batch).outputs == greedy_decode(plain, batch).outputs
    assert gradient_to_padding(corrupted, batch) == 0


def test_padding_does_not_change_outputs_with_the_right_mask() -> None:
    model, batch = translator(MASKS["right"], 0).eval(), TASK.held_out(12)

    def pairs(decoded: Outputs) -> list[tuple[list[int], list[int]]]:
        """Cut the outputs at the smaller length limit of the two searches."""
        both = zip(decoded.references, decoded.outputs, strict=True)
        return sorted((reference, output[: len(reference) + 2]) for reference, output in both)

    assert pairs(without_padding(model, batch)) == pairs(greedy_decode(model, batch))


def test_the_library_refuses_masks_of_wrong_shape_or_dtype() -> None:
    found = {
        str(m.arm["mask passed to the library"]): m for m in refusals(0) if m.quantity == "refused"
    }
    refused = [name for name, m in found.items() if m.value]
    assert len(refused) == 3 and all("shape" in str(found[r].arm["response"]) for r in refused)
    assert found["none"].arm["response"] == "made from the ids"
    assert found["inverted, of the right shape"].arm["response"] == "accepted"


def results(loss: dict[str, float], right: dict[str, float]) -> Results:
    found: list[Measurement] = list(refusals(0))
    for mask in MASKS:
        arm, noise = {"mask": mask}, (0.0, 0.01, 0.02)
        found += runs(LOSS, arm, [loss.get(mask, 0.05) + n for n in noise])
        found += runs(AS_TRAINED, arm, [right.get(mask, 95.0) + n for n in noise])
        found += runs(ALONE, arm, [95.0, 94.0, 96.0])
        found += runs(PADDED, arm, [95.0, 94.0, 96.0])
    return Results(found)


WRONG = [mask for mask in MASKS if mask != "right"]


@pytest.mark.parametrize(
    ("loss", "right", "outcome"),
    [
        ({}, dict.fromkeys(WRONG, 0.0), "supported"),
        ({"none": 1.0}, dict.fromkeys(WRONG, 0.0), "depends"),  # its loss is high
        ({}, dict.fromkeys(WRONG[:1], 0.0), "depends"),
        ({}, {}, "not supported"),  # no damage
        ({}, dict.fromkeys(MASKS, 0.0), "depends"),  # the right mask did not learn
        (
            dict.fromkeys(WRONG, 1.0),
            dict.fromkeys(WRONG, 0.0),
            "not supported",
        ),  # all losses are high
    ],
)
def test_the_verdict_follows_the_rule(
    loss: dict[str, float], right: dict[str, float], outcome: str
) -> None:
    verdict = judge(results(loss, right))
    assert verdict.outcome == outcome
    assert verdict.because.count(".") == 1, "one sentence"


def test_diverged_runs_are_no_silent_damage_and_are_counted() -> None:
    """Four of five losses are NaN: a low fifth does not make the mask silent."""
    plain = results({}, dict.fromkeys(WRONG, 0.0)).measurements
    others = [m for m in plain if (m.quantity, m.arm.get("mask")) != (LOSS, "none")]
    loud = runs(LOSS, {"mask": "none"}, [nan, nan, nan, nan, 0.05])
    verdict = judge(Results([*others, *loud]))
    assert verdict.outcome == "depends"
    assert "none" not in verdict.because.rstrip(".").split(": ")[1].split(", ")
    right = [m for m in plain if (m.quantity, m.arm.get("mask")) != (LOSS, "right")]
    broken = runs(LOSS, {"mask": "right"}, [nan, 0.05, 0.05])
    assert judge(Results([*right, *broken])).outcome == "depends"
