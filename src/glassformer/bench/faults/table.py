"""All campaigns of `bench faults`, and their table."""

from glassformer.bench.faults import (
    checkpoints,
    clock,
    imports,
    inputs,
    kills,
    memory,
    requests,
    servers,
    threads,
)
from glassformer.bench.faults.campaign import Campaign, Tally, conduct
from glassformer.bench.report import Report
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick

MODULES = (kills, checkpoints, imports, inputs, servers, threads, memory, clock, requests)
CAMPAIGNS: dict[str, Campaign] = {module.CAMPAIGN.name: module.CAMPAIGN for module in MODULES}
COLUMNS = ["campaign", "tried", "held", "lost", "tracebacks", "hangs", "seconds"]


def steps(campaigns: list[Campaign], quick: bool) -> int:
    return sum(len(campaign.seeds(quick, 0)) for campaign in campaigns)


def bench_faults(
    campaigns: list[Campaign],
    quick: bool,
    seed: int,
    command: str,
    tick: Tick = lambda: None,
) -> Report:
    """Carry out campaigns one after the other and count what was lost, raised or hung."""
    tallies = [conduct(one, one.seeds(quick, seed), tick) for one in campaigns]
    notes = [note for tally in tallies for note in _notes(tally)]
    failures = sum(len(tally.failures) for tally in tallies)
    table = Table("Faults", COLUMNS, [*map(_row, tallies)])
    return Report(command, [table], notes=notes, failures=failures)


def _row(tally: Tally) -> Row:
    failures = (tally.lost, tally.tracebacks, tally.hangs)
    return [tally.name, tally.tried, tally.held, *map(len, failures), round(tally.seconds)]


def _notes(tally: Tally) -> list[str]:
    """Return the figures of a campaign and its failures, each with the seed that repeats it."""
    figures = [f"{value:g} {name}" for name, value in tally.figures.items()]
    return [
        *([f"{tally.name}: {', '.join(figures)}."] if figures else []),
        *(f"{tally.name}, {failure}" for failure in tally.failures),
    ]
