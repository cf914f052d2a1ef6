"""Scores of a translator on several sets, in each of its directions, as one table.

A suite is made of the score cards of `evaluate.translation`, as JSON holds them.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.evaluate.card import Sheet, Table, cell_text, facts, markdown_table

Suite = dict[str, Any]
ONE = "1 a sentence"  # references
SCORES = ("sentences", "bleu", "chrf", "perplexity", "exact_match")  # of each set and direction


def suite(command: str, cards: Mapping[tuple[str, str], dict[str, Any]]) -> Suite:
    """Return the suite of `cards`, which are by set and direction: ("wmt14/newsdev", "en-fr")."""
    sets: dict[str, dict[str, Any]] = {}
    checksums: dict[str, str] = {}
    for (name, direction), card in cards.items():
        around = card["circumstances"]
        references = around["settings"].get("references", ONE)
        scores = {key: card[key] for key in SCORES}
        sets.setdefault(name, {})[direction] = scores | {"references": references}
        checksums |= around["checksums"]
    first = next(iter(cards.values()))["circumstances"]
    own = ("to", "references")  # of one direction or set
    return {
        "kind": "suite",
        "model": first["model"],
        "command": command,
        "settings": {key: one for key, one in first["settings"].items() if key not in own},
        "machine": first["machine"],
        "seconds": sum(card["circumstances"]["seconds"] for card in cards.values()),
        "checksums": checksums,
        "sets": sets,
    }


def table(suite: Suite) -> Table:
    """Tabulate BLEU and chrF of each set, by direction."""
    ways = list(dict.fromkeys(way for by_way in suite["sets"].values() for way in by_way))
    heads = [f"{score} {way.replace('-', '→')}" for way in ways for score in ("BLEU", "chrF")]
    rows = []
    for name, by_way in suite["sets"].items():
        found = list(by_way.values())
        scores = [f"{one[key]['value']:.1f}" for one in found for key in ("bleu", "chrf")]
        rows.append([_named(name, found), f"{found[0]['sentences']:,}", *scores])
    return Table("scores", ["set", "sentences", *heads], rows)


def _named(name: str, scores: list[dict[str, Any]]) -> str:
    several = any(one["references"] != ONE for one in scores)
    return f"{name}, all references" if several else name


def best(suite: Suite) -> str:
    """Return a line for lists of models: the BLEU of the first set in each direction."""
    name, by_way = next(iter(suite["sets"].items()))
    scores = [f"{one['bleu']['value']:.1f} {way.replace('-', '→')}" for way, one in by_way.items()]
    return f"BLEU on {name}: {', '.join(scores)}"


def sheet(suite: Suite) -> Sheet:
    tables = [
        table(suite),
        facts("settings", suite["settings"]),
        facts("machine", suite["machine"]),
    ]
    quoted: dict[str, str] = {}
    for name, by_way in suite["sets"].items():
        for score in ("BLEU", "chrF"):
            signature = next(iter(by_way.values()))[score.lower()]["signature"]
            if signature not in quoted.values():
                quoted[f"{score} of {name}"] = signature
    quoted |= {f"SHA-256 of {name}": digest for name, digest in suite["checksums"].items()}
    return Sheet(f"Scores of {suite['model']}", tables, quoted | {"command": suite["command"]})


def section(suite: Suite) -> str:
    """Return the section of a model card: what was measured, the table, and the command."""
    found, settings = table(suite), suite["settings"]
    kind = "in INT8" if settings["int8"] else "in fp32"
    about = (
        f"Cased sacreBLEU (13a) and chrF, beam {settings['beam_size']}, length penalty "
        f"{settings['length_penalty']}, {kind} on the compiled engine. Typography is plain on both "
        "sides."
    )
    cells = [[cell_text(cell) for cell in row] for row in found.rows]
    rows = markdown_table(found.columns, cells, found.alignment)
    return f"{about}\n\n{rows}\n\n```\n{suite['command']}\n```"
