"""Greedy against beam, with a scripted translator whose output for each width is known."""

import json
from dataclasses import asdict
from itertools import count

import pytest
import sacrebleu

from glassformer.errors import DataError, InputError
from glassformer.evaluate import beams
from glassformer.evaluate.beams import (
    BeamComparison,
    compare_beams,
    most_changed,
)
from glassformer.evaluate.card import markdown
from glassformer.machine import resident_memory

SOURCES = [f"number {i} sees the old cat and a dog" for i in range(40)]
REFERENCES = [f"le numéro {i} voit le vieux chat et un chien" for i in range(40)]
WORSE = [text.replace("vieux chat", "chat vieille") for text in REFERENCES]


class Scripted:
    """A translator with given outputs for each width, which records its calls."""

    def __init__(self, script: dict[int, list[str]]) -> None:
        self.script, self.calls = script, []

    def translate(self, texts, beam_size=5, **options):
        self.calls.append((len(texts), beam_size, options))
        return [self.script[beam_size][SOURCES.index(text)] for text in texts]


def compare(script, **options) -> BeamComparison:
    widths = sorted(script)
    options = {"beams": widths, "trials": 300, **options}
    return compare_beams(Scripted(script), SOURCES, REFERENCES, **options)


def mixed(right: int) -> list[str]:
    return REFERENCES[:right] + WORSE[right:]


def test_scores_equal_those_of_sacrebleu():
    script = {1: mixed(10), 2: mixed(20), 4: [text + " ici" for text in mixed(30)]}
    for result, texts in zip(compare(script).results, script.values(), strict=True):
        bleu = sacrebleu.corpus_bleu(texts, [REFERENCES])
        assert result.bleu == bleu.score
        assert result.chrf == sacrebleu.corpus_chrf(texts, [REFERENCES]).score
        assert result.length_ratio == bleu.sys_len / bleu.ref_len


def test_changed_sentences_are_counted_against_greedy():
    results = compare({1: mixed(10), 2: mixed(10), 4: mixed(13), 8: mixed(7)}).results
    assert [result.changed for result in results] == [0, 0, 3, 3]


@pytest.mark.parametrize("texts", [REFERENCES, WORSE], ids=["perfect", "poor"])
def test_the_same_output_is_never_significantly_different(texts):
    greedy, beam = compare({1: texts, 5: list(texts)}).results
    assert (greedy.bleu_p, greedy.chrf_p) == (None, None)
    assert (beam.bleu_p, beam.chrf_p, beam.changed) == (1.0, 1.0, 0)


def test_consistent_gains_are_significant_and_balanced_changes_are_not():
    script = {1: mixed(20), 2: REFERENCES, 4: WORSE[:20] + REFERENCES[20:]}
    _, better, swapped = compare(script).results
    assert better.bleu_p < 0.01 and better.chrf_p < 0.01
    assert swapped.changed == 40 and swapped.bleu_p > 0.5


def test_signatures_name_the_metric_and_the_test():
    signatures = compare({1: REFERENCES, 2: WORSE}).signatures
    assert set(signatures) == {"BLEU", "chrF2"}
    assert "tok:13a" in signatures["BLEU"] and "ar:300" in signatures["BLEU"]


def test_the_largest_gains_and_losses_are_found():
    greedy = list(REFERENCES)
    greedy[3], greedy[4] = "tout autre chose", REFERENCES[4].replace("un chien", "chien")
    beam = list(REFERENCES)
    beam[7], beam[8] = "", REFERENCES[8] + " !"
    gained, lost = most_changed(SOURCES, REFERENCES, {1: greedy, 2: beam}, examples=5)
    assert [change.sentence for change in gained] == [4, 5]
    assert [change.sentence for change in lost] == [8, 9]
    assert (gained[0].source, gained[0].reference) == (SOURCES[3], REFERENCES[3])
    assert (gained[0].greedy, gained[0].output) == ("tout autre chose", REFERENCES[3])
    assert [gained[0].chrf, gained[0].bleu] == pytest.approx([100, 100])
    oracle = sacrebleu.sentence_chrf("tout autre chose", [REFERENCES[3]]).score
    assert gained[0].difference == pytest.approx(100 - oracle)
    assert lost[0].difference == pytest.approx(-100)


def test_the_requested_number_of_examples_comes_largest_first():
    gained, lost = most_changed(SOURCES, REFERENCES, {1: WORSE, 2: REFERENCES}, examples=3)
    differences = [change.difference for change in gained]
    assert len(gained) == 3 and not lost and differences == sorted(differences, reverse=True)


def test_widths_with_equal_output_share_one_example():
    outputs = {1: WORSE, 2: mixed(1), 4: mixed(1), 8: WORSE, 16: ["x", *WORSE[1:]]}
    gained, lost = most_changed(SOURCES, REFERENCES, outputs, examples=5)
    assert [change.beams for change in gained] == [(2, 4)]
    assert [change.beams for change in lost] == [(16,)]


def test_a_sentence_is_shown_once_with_its_largest_change():
    outputs = {1: WORSE, 2: [REFERENCES[0] + " ici", *WORSE[1:]], 4: mixed(2), 8: mixed(1)}
    gained, lost = most_changed(SOURCES, REFERENCES, outputs, examples=5)
    assert {(change.sentence, change.beams) for change in gained} == {(1, (4, 8)), (2, (4,))}
    assert not lost


def test_greedy_is_always_measured_and_widths_ascend_without_duplicates():
    translator = Scripted(dict.fromkeys((1, 2, 4), REFERENCES))
    comparison = compare_beams(translator, SOURCES, REFERENCES, [4, 2, 4], trials=10)
    assert [result.beam for result in comparison.results] == [1, 2, 4]
    assert [width for texts, width, _ in translator.calls if texts == len(SOURCES)] == [1, 2, 4]


def test_the_default_widths():
    translator = Scripted(dict.fromkeys((1, 2, 4, 5, 8, 16), REFERENCES))
    comparison = compare_beams(translator, SOURCES, REFERENCES, trials=10)
    assert [result.beam for result in comparison.results] == [1, 2, 4, 5, 8, 16]


def test_options_reach_the_search_and_every_turn_ticks():
    translator, turns = Scripted({1: REFERENCES, 2: REFERENCES}), count()
    compare_beams(
        translator,
        SOURCES,
        REFERENCES,
        [2],
        rounds=3,
        trials=10,
        tick=lambda: next(turns),
        length_penalty=1.0,
    )
    assert next(turns) == 6
    asked = {"length_penalty": 1.0, "split": False, "typeset": False}
    assert all(options == asked for _, _, options in translator.calls)


def test_the_best_round_of_each_width_counts(monkeypatch):
    """With a scripted clock, greedy takes 2 and 4 seconds, beam 2 takes 8 and 5."""
    ticks = iter([0, 2, 10, 18, 20, 24, 30, 35])
    monkeypatch.setattr(beams, "perf_counter", lambda: next(ticks))
    greedy, beam = compare({1: REFERENCES, 2: REFERENCES}, rounds=2).results
    assert (greedy.seconds, beam.seconds) == (2, 5)
    assert (greedy.relative_speed, beam.relative_speed) == (1, 2 / 5)
    assert beam.sentences_per_second == len(SOURCES) / 5


class MemoryHungry(Scripted):
    """A translator that holds 32 MB a width while it translates, and 1 MB when greedy."""

    def translate(self, texts, beam_size=5, **options):
        held = bytearray(1_000_000 if beam_size == 1 else 32_000_000 * beam_size)
        held[::1000] = b"x" * len(held[::1000])
        return super().translate(texts, beam_size, **options)


@pytest.mark.skipif(resident_memory() is None, reason="there is no /proc")
def test_memory_is_the_peak_of_a_width_though_it_is_freed():
    bytearray(200_000_000)[::1000] = b"x" * 200_000  # an older peak, which is not the search's
    translator = MemoryHungry({1: REFERENCES, 2: REFERENCES})
    greedy, beam = compare_beams(translator, SOURCES, REFERENCES, [2], trials=10).results
    assert greedy.peak_bytes < 32e6 < beam.peak_bytes < 128e6


def test_memory_is_absent_where_the_system_does_not_report_it(monkeypatch):
    monkeypatch.setattr(beams, "resident_memory", lambda: None)
    comparison = compare({1: REFERENCES, 2: REFERENCES})
    assert [result.peak_bytes for result in comparison.results] == [None, None]
    assert [r.row[beams.COLUMNS.index("memory MB")] for r in comparison.results] == ["–", "–"]


@pytest.fixture(scope="module")
def comparison() -> BeamComparison:
    return compare({1: mixed(20), 2: mixed(22), 4: REFERENCES, 16: WORSE})


def test_the_table_has_a_row_of_text_per_width(comparison):
    table = comparison.sheet().tables[0]
    assert [row[0] for row in table.rows] == ["1 (greedy)", "2", "4", "16"]
    for row in table.rows:
        assert len(row) == len(table.columns)
        assert all(isinstance(cell, str) for cell in row)


def test_the_comparison_survives_json(comparison):
    content = asdict(comparison)
    assert json.loads(json.dumps(content))["results"] == content["results"]
    assert [result["beam"] for result in content["results"]] == [1, 2, 4, 16]
    assert content["gained"] and content["lost"] and content["notes"] and content["signatures"]


def test_markdown_has_the_table_the_examples_and_the_notes(comparison):
    text = markdown(comparison.sheet())
    assert "| 1 (greedy) |" in text and "| beam 16 |" in text
    assert "## gained: sentence" in text and "## lost: sentence" in text
    assert "approximate randomisation" in text and "resident set" in text
    assert all(signature in text for signature in comparison.signatures.values())


def test_lists_of_different_length_are_refused():
    with pytest.raises(DataError, match="40 sources, 39 references"):
        compare_beams(Scripted({1: REFERENCES}), SOURCES, REFERENCES[1:])


def test_empty_lists_are_refused():
    with pytest.raises(DataError, match="there must be a line"):
        compare_beams(Scripted({1: []}), [], [])


def test_a_beam_of_width_0_is_refused():
    with pytest.raises(InputError, match="A beam cannot have the width 0"):
        compare({0: REFERENCES, 1: REFERENCES})
