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
    MASKS,
    PADDED,
    TASK,
    alone,
    gradient_to_padding,
    judge,
    refusals,
    translator,
)
from glassformer.lab.learning import Said, say, small
from glassformer.model.masks import padding_mask, target_mask
from lab.made_up import quick_run, runs

IDS = torch.tensor([[5, 6, 7, 0], [5, 6, 7, 8]])


def test_quickly(tmp_path: Path) -> None:
    finding = quick_run("masking", tmp_path)
    to_padding = {m: finding.results.summary("gradient to padding", mask=m).mean for m in MASKS}
    assert to_padding["right"] == to_padding["future leaked"] == 0
    assert min(to_padding[m] for m in ("padding on the wrong axis", "inverted", "none")) > 0


def spoilt(name: str, mask: Tensor, role: str) -> Tensor:
    full = mask.expand(2, 1, 4, 4)
    wrong = MASKS[name](full, role)
    assert wrong.shape == full.shape and wrong.dtype == torch.bool
    return wrong[:, 0]


def test_each_mask_is_wrong_in_its_own_way() -> None:
    pad, causal = padding_mask(IDS), target_mask(IDS)
    real = IDS != 0
    by_query = spoilt("padding on the wrong axis", pad, "encoder")
    assert by_query.equal(real[:, :, None].expand(2, 4, 4))
    later = torch.ones(4, 4).tril().bool()
    assert spoilt("padding on the wrong axis", causal, "decoder").equal(real[:, :, None] & later)
    assert spoilt("padding on the wrong axis", pad, "cross").equal(pad[:, 0].expand(2, 4, 4))
    assert spoilt("inverted", causal, "decoder").equal(~causal[:, 0])
    assert spoilt("none", causal, "decoder").all()
    assert spoilt("future leaked", causal, "decoder").equal(real[:, None].expand(2, 4, 4))
    assert spoilt("future leaked", pad, "encoder").equal(pad[:, 0].expand(2, 4, 4))


def test_under_the_right_mask_the_kernel_is_the_librarys() -> None:
    spoilt = translator(MASKS["right"], 3).eval()
    torch.manual_seed(3)
    plain = small(TASK, tie_source_target=False, tie_target_output=False).eval()
    batch = TASK.held_out(6)
    torch.testing.assert_close(spoilt(*batch.inputs), plain(*batch.inputs))
    assert say(spoilt, batch).answers == say(plain, batch).answers
    assert gradient_to_padding(spoilt, batch) == 0


def test_answers_are_the_same_without_padding_under_the_right_mask() -> None:
    model, batch = translator(MASKS["right"], 0).eval(), TASK.held_out(12)

    def pairs(said: Said) -> list[tuple[list[int], list[int]]]:
        """Up to where the shorter of the two searches had to stop."""
        both = zip(said.right, said.answers, strict=True)
        return sorted((right, answer[: len(right) + 2]) for right, answer in both)

    assert pairs(alone(model, batch)) == pairs(say(model, batch))


def test_the_library_refuses_what_can_be_told_from_a_shape() -> None:
    found = {str(m.arm["given to the library"]): m for m in refusals(0) if m.quantity == "refused"}
    refused = [name for name, m in found.items() if m.value]
    assert len(refused) == 3 and all("shape" in str(found[r].arm["its answer"]) for r in refused)
    assert found["none"].arm["its answer"] == "made from the ids"
    assert found["inverted, of the right shape"].arm["its answer"] == "accepted"


def results(loss: dict[str, float], right: dict[str, float]) -> Results:
    found: list[Measurement] = list(refusals(0))
    for mask in MASKS:
        arm, noise = {"mask": mask}, (0.0, 0.01, 0.02)
        found += runs("loss on held-out", arm, [loss.get(mask, 0.05) + n for n in noise])
        found += runs(AS_TRAINED, arm, [right.get(mask, 95.0) + n for n in noise])
        found += runs(ALONE, arm, [95.0, 94.0, 96.0])
        found += runs(PADDED, arm, [95.0, 94.0, 96.0])
    return Results(found)


WRONG = [mask for mask in MASKS if mask != "right"]


@pytest.mark.parametrize(
    ("loss", "right", "outcome"),
    [
        ({}, dict.fromkeys(WRONG, 0.0), "supported"),
        ({"none": 1.0}, dict.fromkeys(WRONG, 0.0), "depends"),  # its loss tells
        ({}, dict.fromkeys(WRONG[:1], 0.0), "depends"),
        ({}, {}, "not supported"),  # no damage
        ({}, dict.fromkeys(MASKS, 0.0), "depends"),  # nothing was learned that could be damaged
        (dict.fromkeys(WRONG, 1.0), dict.fromkeys(WRONG, 0.0), "not supported"),  # all of it loud
    ],
)
def test_the_rule(loss: dict[str, float], right: dict[str, float], outcome: str) -> None:
    verdict = judge(results(loss, right))
    assert verdict.outcome == outcome
    assert "lets through: inverted" in verdict.because


def test_runs_that_blew_up_are_not_quiet_and_are_not_left_out() -> None:
    """Four of five losses are no numbers: that is no quiet damage, however low the fifth."""
    plain = results({}, dict.fromkeys(WRONG, 0.0)).measurements
    others = [m for m in plain if (m.quantity, m.arm.get("mask")) != ("loss on held-out", "none")]
    loud = runs("loss on held-out", {"mask": "none"}, [nan, nan, nan, nan, 0.05])
    verdict = judge(Results([*others, *loud]))
    assert verdict.outcome == "depends" and "Quiet damage" in verdict.because
    assert "none" not in verdict.because.split("Quiet damage: ")[1].split(".")[0].split(", ")
    right = [m for m in plain if (m.quantity, m.arm.get("mask")) != ("loss on held-out", "right")]
    broken = runs("loss on held-out", {"mask": "right"}, [nan, 0.05, 0.05])
    assert judge(Results([*right, *broken])).outcome == "depends"
