"""The training loop: update, validate, save, stop for a reason."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from signal import SIGTERM

from glassformer.checkpoint import Checkpoint
from glassformer.data.batching import draw_seed
from glassformer.errors import TrainingError
from glassformer.train.batches import reading
from glassformer.train.gpu import gpu_record, kernels
from glassformer.train.log import Log, Record
from glassformer.train.meter import Meter
from glassformer.train.run import Run, ending, last_step, warmup_updates
from glassformer.train.save import inference_weights, keep_good_weights, save, stored
from glassformer.train.schedule import factor
from glassformer.train.signals import Signals, StopRequested, stop_signals
from glassformer.train.step import train_step
from glassformer.train.validate import Evaluate, validate

Report = Callable[[Record], None]


def train(run: Run, evaluate: Evaluate | None = None, report: Report = lambda record: None) -> str:
    """Update until there is a reason to stop, and return it.

    `evaluate` scores the model's output (BLEU); the loop itself computes loss and accuracy.
    `report` is called with every record of the log.
    """
    s, at, world = run.settings.train, run.position, run.world
    tell = Log(run.folder.path, at.step, s.tensorboard, report).write if world.leads else report
    meter = Meter(at)
    chosen = kernels(world.device, run.precision.tf32, s.deterministic)
    with stop_signals() as signals, chosen:
        if at.unvalidated and (reason := conclude(run, evaluate, tell, signals)):
            return reason
        for batches in reading(run):
            if reason := ending(run):
                return reason
            last = last_step(run)
            at.step += 1
            rate = factor(s.schedule, at.step, warmup_updates(run, last), last, s.decay_share)
            seeds = (draw_seed(s.seed, at.step, world.rank + i * world.size) for i in count())
            try:
                update = train_step(
                    run.objective, run.optimizers, batches, seeds, rate, s.clip, world, run.scaler
                )
            except TrainingError:  # raised before the weights are updated
                at.step -= 1
                keep_good_weights(run)
                raise
            if run.average is not None:
                run.average.update(run.model, at.step)
            meter.add(update, batches)
            at.unvalidated = at.step % s.validate_every == 0 or ending(run) is not None
            if at.step % s.log_every == 0:
                tell(meter.read(update.rate) | gpu_record(world.device, run.scaler))
            if world.any(signals.received is not None):
                return stop_for(run, signals)
            if at.unvalidated and (reason := conclude(run, evaluate, tell, signals)):
                return reason
    raise AssertionError("epochs do not end")


def conclude(run: Run, evaluate: Evaluate | None, tell: Report, signals: Signals) -> str | None:
    """Validate and save, as the best checkpoint if it is; refuse weights that are not finite.

    A signal stops a validation of a single process (several would wait for its result). The
    validation stays due, the run is saved without it, and the reason to stop is returned.
    """
    s, data, at, world = run.settings.train, run.settings.data, run.position, run.world
    weights = inference_weights(run)
    to_save = Checkpoint(run.settings, stored(run, weights))
    world.lead(lambda: run.folder.refuse_nonfinite(to_save, at.step))
    scores: dict[str, float] = {}
    if world.leads:
        try:
            with signals.at_once() if world.size == 1 else nullcontext():
                sets = {one.name: one.examples for one in run.data.valid_sets} or run.data.valid
                scores = validate(
                    run.settings.model, weights, sets, data.batch_tokens, evaluate,
                    s.attention_entropy, world.device, run.votes,
                )  # fmt: skip
        except StopRequested:
            return stop_for(run, signals)
    (score,) = world.sum(scores[s.metric] if world.leads else 0.0)
    is_best = run.stopping.better(score)
    at.unvalidated = False
    named = {f"valid_{name}": value for name, value in scores.items()}
    reached = {"labels": at.labels, "seconds": at.seconds}
    # Before saving: a run killed in between drops the record and validates again.
    tell({**at.place, **named, "best": is_best, **reached})
    save(run, weights, is_best)
    return None


def stop_for(run: Run, signals: Signals) -> str:
    """Save the run and return the signal as the reason; another process may have received it."""
    save(run, inference_weights(run), is_best=False)
    run.signal = signals.received or SIGTERM
    return f"signal {int(run.signal)}"
