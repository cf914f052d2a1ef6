"""Each label finds what it is named for, and nothing else."""

import pytest

from glassformer.data.tokenizer import Tokenizer
from glassformer.evaluate.labels import (
    ALL_LABELS,
    copied,
    empty,
    lost_names,
    numbers,
    over_long,
    problems,
    repeated,
    under_long,
    unknown,
    word_counts,
    wrong_numbers,
)

ENGLISH = ["a dog", "the old cat sees a dog", "two children want some tea", "a house of tea"]
FRENCH = ["un chien", "le vieux chat voit un chien", "deux enfants veulent du thé", "la maison"]
TOKENIZER = Tokenizer.train((ENGLISH + FRENCH) * 5, 60)


@pytest.mark.parametrize(
    ("reference", "output", "found"),
    [("un chien", "", True), ("un chien", " \t", True), ("un chien", "x", False), ("", "", False)],
)
def test_empty(reference, output, found):
    assert bool(empty("a dog", reference, output)) == found


@pytest.mark.parametrize(
    ("source", "reference", "output", "evidence"),
    [
        ("a dog", "un chien", "un chien chien", ["chien"]),
        ("a dog", "un chien", "Un chien, un chien", ["un chien"]),
        ("a b c", "x y z", "un petit chien un petit chien", ["un petit chien"]),
        ("a", "b", "a b c d a b c d", ["a b c d"]),
        ("a", "b", "le chat noir dort et le chat noir mange", ["le chat noir"]),
        ("a dog", "un chien", "le chien et le chat", []),  # one word again is no repetition
        ("very very good", "très bon", "très très bon", []),  # the source says it twice
        ("very good", "très très bon", "très très bon", []),  # the reference does
        ("very very good", "très très bon", "très très très bon", ["très"]),
        ("a", "le chat noir et le chat noir", "le chat noir ou le chat noir", []),
        ("a dog", "un chien", "", []),
    ],
)
def test_repeated(source, reference, output, evidence):
    assert repeated(source, reference, output) == evidence


@pytest.mark.parametrize(
    ("output", "reference", "over", "under"),
    [
        (10, 6, True, False),
        (9, 6, False, False),  # half as long again, and no more
        (3, 1, False, False),  # two words are no great difference
        (4, 1, True, False),
        (6, 10, False, True),
        (7, 10, False, False),
        (1, 3, False, False),
        (1, 4, False, True),
        (0, 9, False, False),  # that is empty
        (8, 8, False, False),
    ],
)
def test_over_and_under_long(output, reference, over, under):
    texts = ("x", " ".join("w" * reference), " ".join("w" * output))
    assert bool(over_long(*texts)) == over
    assert bool(under_long(*texts)) == under


def test_the_evidence_of_length_labels_is_the_word_counts():
    assert over_long("x", "a", "a b c d") == ["4 words for 1"]


@pytest.mark.parametrize(
    ("output", "known", "evidence"),
    [
        ("le vieux cat voit un dog", (), ["cat", "dog"]),
        ("le vieux Cat voit un chien", (), ["cat"]),
        ("le vieux table voit un chien", (), []),  # wrong, yet no word of the source
        ("le old chat", ("old",), []),
        ("the old cat voit un chien", ("the", "old", "cat"), ["the old cat"]),  # three running
        ("le vieux chat voit un chien", (), []),
        ("Paris", (), []),  # the reference has it too
        ("12", (), []),  # a number, which has its own label
    ],
)
def test_copied(output, known, evidence):
    source = "the old cat sees a dog in Paris 12"
    reference = "le vieux chat voit un chien à Paris"
    assert copied(source, reference, output, known) == evidence


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("in 2010 and 1,000 of 1.000 or 1 000", ["2010", "1000", "1000", "1000"]),
        ("1.5 or 1,5 but 15", ["1.5", "1.5", "15"]),
        ("1,234,567.5 at 12:30", ["1234567.5", "12:30"]),
        ("2010 300 people", ["2010", "300"]),
        ("10 000", ["10000"]),
        ("B2 and 3rd.", ["2", "3"]),
        ("none", []),
    ],
)
def test_numbers(text, found):
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("source", "reference", "output", "evidence"),
    [
        ("17 dogs", "17 chiens", "des chiens", ["17 lost"]),
        ("17 dogs", "17 chiens", "71 chiens", ["17 lost", "71 new"]),
        ("17 dogs", "dix-sept chiens", "dix-sept chiens", []),  # the reference spells it out
        ("17 dogs", "dix-sept chiens", "17 chiens", []),  # the source has it
        ("two dogs", "2 chiens", "deux chiens", []),
        ("1,000 dogs", "1 000 chiens", "1.000 chiens", []),
        ("5 of 5", "5 sur 5", "5", ["5 lost"]),
        ("dogs", "chiens", "3 chiens", ["3 new"]),
    ],
)
def test_wrong_numbers(source, reference, output, evidence):
    assert wrong_numbers(source, reference, output) == evidence


@pytest.mark.parametrize(
    ("source", "reference", "output", "evidence"),
    [
        ("She saw Anna in Paris.", "Elle vit Anna à Paris.", "Elle vit Anna.", ["Paris"]),
        ("She saw Anna in Paris.", "Elle vit Anna à Paris.", "elle vit anna à paris", []),
        ("Paris is large.", "Paris est grand.", "La ville est grande.", []),  # begins a sentence
        ("Yes. Paris!", "Oui. Paris !", "Oui.", []),
        ('He said: "Paris!"', "Il dit : « Paris ! »", "Il dit.", []),
        ("in London", "à Londres", "à Paris", []),  # the reference has it otherwise
        ("Anna's dog, Anna's cat of Bob", "le chien de Bob", "le chien", ["Bob"]),
        ("so I said", "alors I", "alors", []),  # one letter is no name
        ("der Hund von Max", "Max's dog", "the dog", ["Max"]),
        ("der Hund von Max", "the dog of Max", "the Hund", ["Max"]),
    ],
)
def test_lost_names(source, reference, output, evidence):
    assert lost_names(source, reference, output) == evidence


@pytest.mark.parametrize(
    ("source", "output", "evidence"),
    [
        ("a dog", "un chien", []),
        ("a ☃ dog ☃", "un chien", ["☃"]),
        ("a dogZ, aZ", "un chien", ["dogZ,", "aZ"]),
        ("a dog", "un ⁇ chien", ["⁇"]),
        ("a ☃ dog", "un ⁇ chien", ["☃", "⁇"]),
        ("", "", []),
    ],
)
def test_unknown(source, output, evidence):
    assert unknown(source, output, TOKENIZER) == evidence


def test_text_outside_the_vocabulary_decodes_to_the_unknown_mark():
    (ids,) = TOKENIZER.encode(["un ☃ chien"])
    assert unknown("a dog", TOKENIZER.decode(ids), TOKENIZER)


@pytest.mark.parametrize("text", ENGLISH + FRENCH)
def test_a_translation_equal_to_its_reference_has_no_problem(text):
    assert problems("some tea some tea", text, text, TOKENIZER, ()) == {}


def test_a_sentence_can_fail_in_several_ways():
    found = problems("17 dogs ☃", "17 chiens", "dogs dogs dogs dogs dogs", TOKENIZER, ())
    assert set(found) == {
        "repeated", "over-long", "untranslated copies", "unknown words", "numbers lost or changed",
    }  # fmt: skip
    assert set(found) <= set(ALL_LABELS)


def test_words_are_counted_without_case_and_punctuation():
    assert word_counts(["Le chat, le chien.", "L'eau"]) == {
        "le": 2, "chat": 1, "chien": 1, "l": 1, "eau": 1,
    }  # fmt: skip


# The report.
