"""Pairs that teach copying have on both sides what is to be copied."""

import re
from random import Random

import pytest

from glassformer.data.copying import ITEMS, TEMPLATES, copied_pair

LANGUAGES = ("en", "fr")


def digits(text: str) -> list[str]:
    """The numbers of a text, however they are written."""
    return sorted(re.sub(r"\D", "", number) for number in re.findall(r"\d[\d.,  ]*", text))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t["en"])
def test_a_template_has_one_slot_of_one_kind_on_both_sides(template):
    slots = [re.findall(r"\{(\w+)\}", template[language]) for language in LANGUAGES]
    assert slots[0] == slots[1] and len(slots[0]) == 1 and slots[0][0] in ITEMS


@pytest.mark.parametrize("kind", sorted(set(ITEMS) - {"number", "price"}))
def test_an_item_is_written_alike_in_all_languages(kind):
    assert all(set(ITEMS[kind](Random(seed))) == {"en"} for seed in range(50))


@pytest.mark.parametrize("kind", ["number", "price"])
def test_numbers_have_the_same_digits_in_both_languages(kind):
    for seed in range(200):
        item = ITEMS[kind](Random(seed))
        assert digits(item["en"]) == digits(item.get("fr", item["en"]))


def test_prices_and_decimals_are_written_as_each_language_writes_them():
    items = [ITEMS["price"](Random(seed)) for seed in range(300)]
    assert all(item["en"][0] in "$€£" and item["fr"][-2:] in (" $", " €", " £") for item in items)
    assert not any("." in item["fr"] for item in items)


def test_the_numbers_of_both_sides_stay_equal():
    pair = ("We sold 12 books in 1999.", "Nous avons vendu 12 livres en 1999.")
    changed = {copied_pair(pair, LANGUAGES, Random(seed)) for seed in range(200)}
    assert len(changed) > 100
    for x, y in changed:
        assert digits(x) == digits(y)


def test_other_languages_get_no_template():
    pair = ("a dog", "ein Hund")
    for seed in range(50):
        x, y = copied_pair(pair, ("en", "de"), Random(seed))
        assert pair[0] in x and pair[1] in y and x != pair[0]
        assert x.replace(pair[0], "") == y.replace(pair[1], "")


def test_a_pair_is_a_function_of_its_seed():
    pair = ("a dog", "un chien")
    drawn = [[copied_pair(pair, LANGUAGES, Random(seed)) for seed in range(20)] for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_a_placeholder_replaces_a_word_of_both_sides():
    pair = ("Tom lives here.", "Tom habite ici.")
    made = {copied_pair(pair, LANGUAGES, Random(seed)) for seed in range(300)}
    masked = [(x, y) for x, y in made if x.endswith("} lives here.") and x.startswith("{")]
    assert {x[:3] for x, _ in masked} == {"{1}", "{2}", "{3}"}
    assert all(y == x[:3] + " habite ici." for x, y in masked)


def test_some_pairs_are_quoted_on_both_sides():
    pair = ("a dog", "un chien")
    made = {copied_pair(pair, LANGUAGES, Random(seed)) for seed in range(100)}
    assert ('"a dog"', '"un chien"') in made
