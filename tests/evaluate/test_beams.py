"""Greedy against beam: a scripted translator whose answers for each width are known."""

import json
import sys
from itertools import chain, combinations, count
from xml.etree import ElementTree

import pytest
import sacrebleu

from glassformer.errors import DataError, InputError, MissingPackageError
from glassformer.evaluate import beams
from glassformer.evaluate.beams import (
    BeamComparison,
    beam_figure,
    compare_beams,
    most_changed,
    paired_test,
)

SOURCES = [f"number {i} sees the old cat and a dog" for i in range(40)]
REFERENCES = [f"le numéro {i} voit le vieux chat et un chien" for i in range(40)]
WORSE = [text.replace("vieux chat", "chat vieille") for text in REFERENCES]


class Scripted:
    """Says what the script has for a width, whoever is in the batch, and keeps the calls."""

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


def test_scores_are_those_of_sacrebleu():
    script = {1: mixed(10), 2: mixed(20), 4: [text + " ici" for text in mixed(30)]}
    for result, texts in zip(compare(script).results, script.values(), strict=True):
        bleu = sacrebleu.corpus_bleu(texts, [REFERENCES])
        assert result.bleu == bleu.score
        assert result.chrf == sacrebleu.corpus_chrf(texts, [REFERENCES]).score
        assert result.length_ratio == bleu.sys_len / bleu.ref_len


def test_what_changed_is_counted_against_greedy():
    results = compare({1: mixed(10), 2: mixed(10), 4: mixed(13), 8: mixed(7)}).results
    assert [result.changed for result in results] == [0, 0, 3, 3]


@pytest.mark.parametrize("texts", [REFERENCES, WORSE], ids=["perfect", "poor"])
def test_the_same_output_is_never_significantly_different(texts):
    greedy, beam = compare({1: texts, 5: list(texts)}).results
    assert (greedy.bleu_p, greedy.chrf_p) == (None, None)
    assert (beam.bleu_p, beam.chrf_p, beam.changed) == (1.0, 1.0, 0)


@pytest.mark.parametrize("changed", range(1, 6))
def test_a_few_sentences_prove_nothing(changed):
    """All of k changes in one direction: the exact test's p is 2 / 2^k, by going through them."""
    p, _ = paired_test({1: mixed(0), 2: mixed(changed)}, REFERENCES, trials=300)
    assert p["BLEU"][2] == pytest.approx(2 / 2**changed, abs=0.05)
    assert p["chrF2"][2] == pytest.approx(2 / 2**changed, abs=0.05)


def test_sentences_that_count_alike_prove_nothing_however_many_they_are():
    """One wrong word for another in six sentences, and two that improve: by hand, p is 1/2."""
    wrong, other = (
        [text.replace("chat", word) for text in REFERENCES] for word in ("ours", "loup")
    )
    better = other[:6] + REFERENCES[6:8] + wrong[8:]
    p, _ = paired_test({1: wrong, 2: better}, REFERENCES, trials=1_000)
    assert p["BLEU"][2] == pytest.approx(1 / 2, abs=0.05)


@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_p_is_that_of_going_through_all_swaps(metric):
    """Of four changes three are up and one down, by the scores of whole corpora."""
    greedy, beam, right = [*mixed(1)[:8]], [WORSE[0], *REFERENCES[1:4], *WORSE[4:8]], REFERENCES[:8]
    score = {"BLEU": sacrebleu.corpus_bleu, "chrF2": sacrebleu.corpus_chrf}[metric]

    def apart(*swapped):
        one, two = list(greedy), list(beam)
        for i in swapped:
            one[i], two[i] = two[i], one[i]
        return abs(score(one, [right]).score - score(two, [right]).score)

    ways = list(chain(*(combinations(range(4), n) for n in range(5))))
    expected = sum(apart(*way) >= apart() - 1e-9 for way in ways) / len(ways)
    p, _ = paired_test({1: greedy, 2: beam}, right, trials=1_000)
    assert 0.1 < expected < 0.9 and p[metric][2] == pytest.approx(expected, abs=0.05)


def test_better_everywhere_is_significant_and_back_and_forth_is_not():
    script = {1: mixed(20), 2: REFERENCES, 4: WORSE[:20] + REFERENCES[20:]}
    _, better, swapped = compare(script).results
    assert better.bleu_p < 0.01 and better.chrf_p < 0.01
    assert swapped.changed == 40 and swapped.bleu_p > 0.5


def test_the_test_and_the_metrics_are_named_by_signature():
    signatures = compare({1: REFERENCES, 2: WORSE}).signatures
    assert set(signatures) == {"BLEU", "chrF2"}
    assert "tok:13a" in signatures["BLEU"] and "ar:300" in signatures["BLEU"]


def test_the_sentences_that_changed_most_are_found_up_and_down():
    greedy = list(REFERENCES)
    greedy[3], greedy[4] = "tout autre chose", REFERENCES[4].replace("un chien", "chien")
    beam = list(REFERENCES)
    beam[7], beam[8] = "", REFERENCES[8] + " !"
    gained, lost = most_changed(SOURCES, REFERENCES, {1: greedy, 2: beam}, examples=5)
    assert [change.sentence for change in gained] == [4, 5]
    assert [change.sentence for change in lost] == [8, 9]
    assert (gained[0].source, gained[0].reference) == (SOURCES[3], REFERENCES[3])
    assert (gained[0].greedy, gained[0].said) == ("tout autre chose", REFERENCES[3])
    assert [gained[0].chrf, gained[0].bleu] == pytest.approx([100, 100])
    oracle = sacrebleu.sentence_chrf("tout autre chose", [REFERENCES[3]]).score
    assert gained[0].difference == pytest.approx(100 - oracle)
    assert lost[0].difference == pytest.approx(-100)


def test_examples_are_as_many_as_asked_for_the_largest_first():
    gained, lost = most_changed(SOURCES, REFERENCES, {1: WORSE, 2: REFERENCES}, examples=3)
    differences = [change.difference for change in gained]
    assert len(gained) == 3 and not lost and differences == sorted(differences, reverse=True)


def test_widths_that_say_the_same_share_one_example():
    said = {1: WORSE, 2: mixed(1), 4: mixed(1), 8: WORSE, 16: ["x", *WORSE[1:]]}
    gained, lost = most_changed(SOURCES, REFERENCES, said, examples=5)
    assert [change.beams for change in gained] == [(2, 4)]
    assert [change.beams for change in lost] == [(16,)]


def test_a_sentence_is_shown_once_where_it_changed_most():
    said = {1: WORSE, 2: [REFERENCES[0] + " ici", *WORSE[1:]], 4: mixed(2), 8: mixed(1)}
    gained, lost = most_changed(SOURCES, REFERENCES, said, examples=5)
    assert {(change.sentence, change.beams) for change in gained} == {(1, (4, 8)), (2, (4,))}
    assert not lost


def test_greedy_is_always_there_and_widths_go_up_once_each():
    translator = Scripted(dict.fromkeys((1, 2, 4), REFERENCES))
    comparison = compare_beams(translator, SOURCES, REFERENCES, [4, 2, 4], trials=10)
    assert [result.beam for result in comparison.results] == [1, 2, 4]
    assert [width for texts, width, _ in translator.calls if texts == len(SOURCES)] == [1, 2, 4]


def test_the_default_widths_are_those_of_the_issue():
    translator = Scripted(dict.fromkeys((1, 2, 4, 5, 8, 16), REFERENCES))
    comparison = compare_beams(translator, SOURCES, REFERENCES, trials=10)
    assert [result.beam for result in comparison.results] == [1, 2, 4, 5, 8, 16]


def test_options_reach_the_search_and_every_turn_is_told():
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
    """A clock by hand: greedy takes 2 and 4 seconds, beam 2 takes 8 and 5."""
    ticks = iter([0, 2, 10, 18, 20, 24, 30, 35])
    monkeypatch.setattr(beams.time, "perf_counter", lambda: next(ticks))
    greedy, beam = compare({1: REFERENCES, 2: REFERENCES}, rounds=2).results
    assert (greedy.seconds, beam.seconds) == (2, 5)
    assert (greedy.relative_speed, beam.relative_speed) == (1, 2 / 5)
    assert beam.sentences_per_second == len(SOURCES) / 5


class Hungry(Scripted):
    """Holds 32 MB a width while it translates, and 1 MB when greedy."""

    def translate(self, texts, beam_size=5, **options):
        held = bytearray(1_000_000 if beam_size == 1 else 32_000_000 * beam_size)
        held[::1000] = b"x" * len(held[::1000])
        return super().translate(texts, beam_size, **options)


@pytest.mark.skipif(beams._resident("VmHWM") is None, reason="the system does not tell")
def test_memory_is_what_a_width_holds_at_most_though_it_is_given_back():
    bytearray(200_000_000)[::1000] = b"x" * 200_000  # an older peak, which is not the search's
    translator = Hungry({1: REFERENCES, 2: REFERENCES})
    greedy, beam = compare_beams(translator, SOURCES, REFERENCES, [2], trials=10).results
    assert greedy.peak_bytes < 32e6 < beam.peak_bytes < 128e6


def test_memory_is_left_out_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(beams, "_resident", lambda what: None)
    comparison = compare({1: REFERENCES, 2: REFERENCES})
    assert [result.peak_bytes for result in comparison.results] == [None, None]
    assert [row[comparison.columns.index("memory MB")] for row in comparison.rows] == ["–", "–"]


@pytest.fixture(scope="module")
def comparison() -> BeamComparison:
    return compare({1: mixed(20), 2: mixed(22), 4: REFERENCES, 16: WORSE})


def test_the_table_has_a_row_of_text_per_width(comparison):
    assert [row[0] for row in comparison.rows] == ["1 (greedy)", "2", "4", "16"]
    for row in comparison.rows:
        assert len(row) == len(comparison.columns)
        assert all(isinstance(cell, str) for cell in row)


def test_it_goes_through_json_unharmed(comparison):
    content = comparison.to_dict()
    assert json.loads(json.dumps(content))["results"] == content["results"]
    assert [result["beam"] for result in content["results"]] == [1, 2, 4, 16]
    assert content["gained"] and content["lost"] and content["notes"] and content["signatures"]


def test_markdown_has_the_table_the_examples_and_what_was_measured(comparison):
    text = comparison.to_markdown()
    assert "| 1 (greedy) |" in text and "| beam 16 |" in text
    assert "gained most" in text and "lost most" in text
    assert "approximate randomisation" in text and "resident set" in text
    assert all(signature in text for signature in comparison.signatures.values())


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_picture_is_written_where_it_was_asked_for(comparison, tmp_path, suffix, start):
    path = tmp_path / "new" / f"beams.{suffix}"
    beam_figure(comparison, path)
    assert path.read_bytes().startswith(start)


def test_the_picture_shows_every_width_and_both_axes(comparison, tmp_path):
    beam_figure(comparison, str(tmp_path / "beams.svg"))
    drawing = (tmp_path / "beams.svg").read_text()
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    for text in ["1", "2", "4", "16", "time, in times of greedy", "beam width (1 is greedy)"]:
        assert f">{text}</text>" in drawing
    assert ">BLEU (filled: p &lt; 0.05 against greedy)</text>" in drawing


def test_another_suffix_is_refused(comparison, tmp_path):
    with pytest.raises(InputError, match=r"End the name with \.svg or \.png"):
        beam_figure(comparison, tmp_path / "beams.txt")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_it_says_what_to_install(comparison, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"glassformer\[plots\]"):
        beam_figure(comparison, tmp_path / "beams.png")


def test_lists_of_unlike_length_are_refused():
    with pytest.raises(DataError, match="40 sources, 39 references"):
        compare_beams(Scripted({1: REFERENCES}), SOURCES, REFERENCES[1:])


def test_no_sentences_are_refused():
    with pytest.raises(DataError, match="there must be a line"):
        compare_beams(Scripted({1: []}), [], [])


def test_a_beam_of_none_is_refused():
    with pytest.raises(InputError, match="0 is no width of a beam"):
        compare({0: REFERENCES, 1: REFERENCES})
