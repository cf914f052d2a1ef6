"""The paired test against exact tests by enumeration."""

from itertools import chain, combinations

import pytest
import sacrebleu

from glassformer.evaluate.significance import paired_test

REFERENCES = [f"le numéro {i} voit le vieux chat et un chien" for i in range(40)]
WORSE = [text.replace("vieux chat", "chat vieille") for text in REFERENCES]


def mixed(right: int) -> list[str]:
    return REFERENCES[:right] + WORSE[right:]


@pytest.mark.parametrize("changed", range(1, 6))
def test_p_of_k_changes_in_one_direction_is_that_of_the_exact_test(changed):
    """The exact p, by enumeration, is 2 / 2^k."""
    p, _ = paired_test({1: mixed(0), 2: mixed(changed)}, REFERENCES, 300, baseline=1)
    assert p["BLEU"][2] == pytest.approx(2 / 2**changed, abs=0.05)
    assert p["chrF2"][2] == pytest.approx(2 / 2**changed, abs=0.05)


def test_changes_without_effect_on_the_score_do_not_lower_p():
    """One wrong word for another in six sentences, and two that improve: by hand, p is 1/2."""
    wrong, other = (
        [text.replace("chat", word) for text in REFERENCES] for word in ("ours", "loup")
    )
    better = other[:6] + REFERENCES[6:8] + wrong[8:]
    p, _ = paired_test({1: wrong, 2: better}, REFERENCES, 1_000, baseline=1)
    assert p["BLEU"][2] == pytest.approx(1 / 2, abs=0.05)


@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_p_is_that_of_enumerating_all_swaps(metric):
    """Three of four changes are up and one is down, by the scores of whole corpora."""
    greedy, beam, right = [*mixed(1)[:8]], [WORSE[0], *REFERENCES[1:4], *WORSE[4:8]], REFERENCES[:8]
    score = {"BLEU": sacrebleu.corpus_bleu, "chrF2": sacrebleu.corpus_chrf}[metric]

    def apart(*swapped):
        one, two = list(greedy), list(beam)
        for i in swapped:
            one[i], two[i] = two[i], one[i]
        return abs(score(one, [right]).score - score(two, [right]).score)

    ways = list(chain(*(combinations(range(4), n) for n in range(5))))
    expected = sum(apart(*way) >= apart() - 1e-9 for way in ways) / len(ways)
    p, _ = paired_test({1: greedy, 2: beam}, right, 1_000, baseline=1)
    assert 0.1 < expected < 0.9 and p[metric][2] == pytest.approx(expected, abs=0.05)
