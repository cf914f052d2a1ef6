"""Figures of every head over many texts as tables, for a terminal or a notebook."""

from glassformer.evaluate.card import Sheet, Table
from glassformer.inspect.statistics import HeadFigures, HeadStatistics

EXTRA = {  # columns that not all heads have: title and form
    "mutual_information": ("bits", "{:.2f}"),
    "importance": ("ΔBLEU", "{:+.2f}"),
    "importance_p": ("p", "{:.3f}"),
}


def heads_sheet(model: str, found: HeadStatistics) -> Sheet:
    """Return a table for each kind of attention, and notes that explain the columns."""
    tables = [
        _table(kind, [h for h in found.heads if h.kind == kind]) for kind in found.divergences
    ]
    return Sheet(f"Heads of {model} over {found.texts:,} texts", tables, {}, _notes(found))


def _notes(found: HeadStatistics) -> list[str]:
    """Explain the columns."""
    told = [
        "entropy in bits, distance in tokens, places in shares of attention",
        "nearest: the head that looks most alike; apart and mean: the Jensen–Shannon divergence "
        "from it and from all others, in bits (0 alike, 1 disjoint)",
    ]
    if any(head.mutual_information is not None for head in found.heads):
        told.append("bits: mutual information of the words that the head links")
    if found.bleu is not None:
        count, by_chance = len(found.heads), round(len(found.heads) * 0.05)
        told += [
            f"BLEU of the whole model: {found.bleu:.2f}; ΔBLEU: its change without the head",
            "p: of such a change by chance (paired approximate randomisation); of "
            f"{count} heads that do nothing about {by_chance} would have p < 0.05",
        ]
    return told


def _table(kind: str, heads: list[HeadFigures]) -> Table:
    places = list(heads[0].places)
    columns = ["head", "entropy", "distance", *places, "role", "nearest", "apart", "mean"]
    rows = [
        [
            one.name,
            f"{one.entropy:.2f}",
            f"{one.distance:.2f}",
            *(f"{one.places[place]:.2f}" for place in places),
            one.role or "–",
            one.nearest,
            f"{one.divergence:.2f}",
            f"{one.mean_divergence:.2f}",
        ]
        for one in heads
    ]
    for name, (title, form) in EXTRA.items():
        values = [getattr(one, name) for one in heads]
        if any(value is not None for value in values):
            columns.append(title)
            for row, value in zip(rows, values, strict=True):
                row.append("–" if value is None else form.format(value))
    return Table(f"{kind} attention", columns, rows)
