"""Wrong masks: does a model train on quietly, and fail where it must speak?

The library's own check refuses most wrong masks, so the wrong arms have a kernel of their own: it
is given the right mask, spoils it, and lays the result out in full, (batch, 1, query, key), which
is what broadcasting would have made of it and what the check accepts. The wrong kernel stays in
the model when it decodes, as a mistake in the code would.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.data.batch import Batch
from glassformer.data.tokenizer import PAD
from glassformer.errors import InputError
from glassformer.lab.drawing import bars
from glassformer.lab.experiment import Arm, Budget, Experiment, Measurement, Results, Tick, Verdict
from glassformer.lab.learning import Plan, Said, Task, accuracy, gradients, learn, loss, say, small
from glassformer.lab.report import number
from glassformer.lab.trials import over
from glassformer.model.attention import MultiHeadAttention, fused_attention
from glassformer.model.masks import causal_mask, padding_mask, target_mask

TASK = Task("reverse", kind="translator", symbols=10, lengths=(2, 8))
STEPS = 300
FINE = 0.1  # nats per label above the right mask's loss: what a curve would not show
LEARNED = 50.0  # percent generated right under the right mask: less leaves nothing to damage
MORE_PADDING = 8
AS_TRAINED, ALONE, PADDED = (
    "right generated, padded as in training, %",
    "right generated, without padding, %",
    f"right generated, padded by {MORE_PADDING} more, %",
)

Spoil = Callable[[Tensor, str], Tensor]  # of the right mask in full, and whose it is: the wrong one


def right(mask: Tensor, role: str) -> Tensor:
    return mask


def wrong_axis(mask: Tensor, role: str) -> Tensor:
    """Real tokens may attend everywhere, to padding too; padding attends nowhere.

    In self-attention only, where both axes have one length: elsewhere the shapes would not fit.
    """
    if role == "cross" or mask.size(-2) != mask.size(-1):
        return mask
    along_keys = mask[:, :, -1:, :]  # the last query may attend to every token that is real
    spoilt = along_keys.transpose(-1, -2).expand_as(mask)
    return spoilt & causal_mask(mask.size(-1)) if role == "decoder" else spoilt


def inverted(mask: Tensor, role: str) -> Tensor:
    """True taken for "may not": torch's own modules have it one way here and the other there."""
    return ~mask


def absent(mask: Tensor, role: str) -> Tensor:
    return torch.ones_like(mask)


def leaked(mask: Tensor, role: str) -> Tensor:
    """The decoder sees all real tokens, those to come as well."""
    return mask[:, :, -1:, :].expand_as(mask) if role == "decoder" else mask


MASKS: dict[str, Spoil] = {
    "right": right,
    "padding on the wrong axis": wrong_axis,
    "inverted": inverted,
    "none": absent,
    "future leaked": leaked,
}


def spoilt_attention(
    spoil: Spoil, role: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *rest: Any
) -> tuple[Tensor, None]:
    """A kernel like the library's, under a mask that was spoilt. No mask is one that allows all."""
    shape = q.size(0), 1, q.size(2), k.size(2)
    full = torch.ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
    return fused_attention(q, k, v, spoil(full, role), *rest)


def translator(spoil: Spoil, seed: int) -> nn.Module:
    """Tables of its own on each side: the gradient of a padding token is then padding's alone."""
    torch.manual_seed(seed)
    model = small(TASK, tie_source_target=False, tie_target_output=False)
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            role = "cross" if part.cross else name.split(".")[0]
            part.kernel = partial(spoilt_attention, spoil, role)
    return model


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    model, asked = translator(MASKS[str(arm["mask"])], seed), TASK.held_out(32 if quick else 256)
    found = {"gradient to padding": gradient_to_padding(model, asked)}
    plan = Plan(steps=16 if quick else STEPS, batch=16 if quick else 64, look_every=STEPS)
    learned = learn(model, TASK, plan, seed, held_out=asked)
    found |= {
        "loss on held-out": loss(model, asked),
        "right given the past, %": accuracy(model, asked),
        **generated(model, asked),
        "diverged": float(learned.diverged),
    }
    for quantity, value in found.items():
        yield Measurement(arm, seed, quantity, value)


def gradient_to_padding(model: nn.Module, batch: Batch) -> float:
    """At the start, what the loss says to the embeddings of padding. It should say nothing."""
    stacks = [cast(Any, model).encoder, cast(Any, model).decoder]
    with gradients(model, batch):
        rows = [stack.embedding.weight.grad[PAD] for stack in stacks]
    return float(torch.cat(rows).norm())


def generated(model: nn.Module, batch: Batch) -> dict[str, float]:
    """Percent of the answers that are right, however much padding follows the sources."""
    source, target = batch.inputs
    padded = F.pad(source, (0, MORE_PADDING), value=PAD)
    return {
        AS_TRAINED: say(model, batch).sequences,
        ALONE: alone(model, batch).sequences,
        PADDED: say(model, Batch((padded, target), batch.labels)).sequences,
    }


def alone(model: nn.Module, batch: Batch) -> Said:
    """Each source without any padding: those of one length together."""
    source, target = batch.inputs
    lengths = (source != PAD).sum(1)
    said = [
        say(model, Batch((source[rows, :length], target[rows]), batch.labels[rows]))
        for length in lengths.unique().tolist()
        for rows in [(lengths == length).nonzero().flatten()]
    ]
    return Said([a for few in said for a in few.answers], [r for few in said for r in few.right])


def refusals(seed: int) -> Iterator[Measurement]:
    """What the library says to each mistake when it comes as a mask, as from a user's code."""
    torch.manual_seed(seed)
    model: Any = small(TASK).eval()
    source, target = TASK.held_out(16).inputs
    pad, causal = padding_mask(source), target_mask(target)
    given: dict[str, tuple[Tensor | None, Tensor | None]] = {
        "padding on the wrong axis, (B, 1, S, 1)": (pad.transpose(-1, -2), causal),
        "padding of two dimensions, (B, S)": (pad[:, 0, 0], causal),
        "0 and -inf instead of True and False": (torch.zeros_like(pad, dtype=torch.float), causal),
        "inverted, of the right shape": (~pad, ~causal),
        "none": (None, None),
        "future leaked: padding alone, (B, 1, 1, T)": (pad, padding_mask(target)),
    }
    with torch.no_grad():
        wanted = model(source, target, pad, causal)
        for mistake, masks in given.items():
            answer, refused, same = "accepted", 0.0, 0.0
            try:
                same = float(torch.allclose(model(source, target, *masks), wanted))
            except InputError as error:
                answer, refused = error.what, 1.0
            if same:
                answer = "made from the ids"
            arm = {"given to the library": mistake, "its answer": answer}
            yield Measurement(arm, seed, "refused", refused)
            yield Measurement(arm, seed, "output as with the right mask", same)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    arms: list[Arm] = [{"mask": mask} for mask in MASKS]
    return over(trial, arms, budget, tick) + list(refusals(budget.seeds[0]))


def judge(results: Results) -> Verdict:
    losses = {mask: results.summary("loss on held-out", mask=mask) for mask in MASKS}
    fine = losses["right"].mean + FINE
    wrong = [mask for mask in MASKS if mask != "right"]
    quiet = [
        mask
        for mask in wrong
        if not losses[mask].failed
        and losses[mask].mean <= fine
        and any(_worse(results, quantity, mask) for quantity in (AS_TRAINED, ALONE, PADDED))
    ]
    told = "; ".join(f"{mask}: {_told(results, mask)}" for mask in MASKS)
    because = f"{told}. Quiet damage: {', '.join(quiet) or 'none'}. {_refused(results)}"
    learned = results.summary(AS_TRAINED, mask="right").mean >= LEARNED
    if losses["right"].failed or not learned:
        return Verdict("depends", f"Too few steps: the right mask did not learn either. {because}")
    if quiet == wrong:
        return Verdict("supported", because)
    return Verdict("depends" if quiet else "not supported", because)


def _worse(results: Results, quantity: str, mask: str) -> bool:
    return results.compare(quantity, {"mask": mask}, {"mask": "right"}) == "less"


def _told(results: Results, mask: str) -> str:
    loss, *percent = (
        number(results.summary(quantity, mask=mask).mean)
        for quantity in ("loss on held-out", AS_TRAINED, ALONE, PADDED)
    )
    return (
        f"loss {loss}, right when generated {percent[0]}% padded as in training, {percent[1]}% "
        f"without padding, {percent[2]}% with more of it"
    )


def _refused(results: Results) -> str:
    refused = results.arms("refused")
    harmful = [
        str(arm["given to the library"])
        for arm in refused
        if not results.summary("refused", **arm).mean
        and not results.summary("output as with the right mask", **arm).mean
    ]
    return f"The library's check lets through: {', '.join(harmful) or 'none'}."


def draw(results: Results, figure: Any) -> None:
    quantities = ("loss on held-out", AS_TRAINED, PADDED)
    trained = Results(m for m in results.measurements if "mask" in m.arm)
    for axes, quantity in zip(figure.subplots(1, 3), quantities, strict=True):
        bars(axes, trained, quantity, "mask")
        axes.set_title(quantity, fontsize=9)
        axes.set_ylim(0, 102 if "%" in quantity else None)


EXPERIMENT = Experiment(
    name="masking",
    title="Wrong masks train quietly",
    claim="A wrong mask raises no error and its loss looks fine, while what the model generates "
    "is damaged.",
    source="a warning of most write-ups of the Transformer; the masks are those of Attention Is "
    "All You Need, §3.2.3",
    varied="the mask: right, padding laid along the wrong axis in self-attention, inverted, none, "
    "and one that lets the decoder see the future",
    measured=f"a translator that learns to reverse 2 to 8 symbols in {STEPS} steps: gradient that "
    "reaches padding tokens at the start, loss on held-out examples given the true past, answers "
    "that are right when it generates them: padded as in training, without padding, with more of "
    "it; and what the library says when it is handed such masks",
    rule=f"A wrong mask damages quietly if its held-out loss is at most {FINE} nats above that of "
    "the right mask, and it generates fewer right answers: padded as in training, without "
    "padding, or with more (seeds paired, 95% intervals). Supported if all four do; not supported "
    f"if none does, though under the right mask {LEARNED:.0f}% are right; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
