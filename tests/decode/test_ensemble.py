"""An ensemble decodes with the mean of its members' probabilities."""

import numpy as np
import pytest

from decode.oracles import after, assert_same, beam, each_decoder, remembering, sources, toy
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.ensemble import Ensemble, _mean, as_one
from glassformer.decode.search import SearchOptions, force_decode, search, total
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import InputError

LIMIT = 7


def find(decoders, questions, prefixes=None, **options):
    options = SearchOptions(**{"max_length": LIMIT, **options})
    return search(decoders, questions, BOS, EOS, options, prefixes)


@each_decoder
@pytest.mark.parametrize("width", [1, 4])
def test_an_ensemble_of_equal_models_is_the_model(decode, width):
    decoder, questions = decode(toy()), sources(1, 6, 3)
    assert_same(
        find([decoder, decoder], questions, beam_size=width, n_best=width),
        find(decoder, questions, beam_size=width, n_best=width),
    )


@each_decoder
@pytest.mark.parametrize("width", [1, 4])
def test_its_answers_are_the_textbooks_for_the_mean_of_the_probabilities(decode, width):
    models = [toy(), toy(positions="alibi", decoder_layers=2)]
    decoders, questions, prefixes = [*map(decode, models)], sources(1, 6, 3), [[], [5], [6, 7]]
    found = find(decoders, questions, prefixes, beam_size=width, n_best=width)
    expected = [
        beam(remembering(after(models, source)), width, LIMIT, n=width, prefix=prefix)
        for source, prefix in zip(questions, prefixes, strict=True)
    ]
    assert_same(found, expected)
    for source, (h, *_) in zip(questions, found, strict=True):
        (scores,) = force_decode(decoders, [source], [[*h.ids, *[EOS] * h.complete]], BOS)
        assert total(scores) == pytest.approx(h.log_probability, abs=1e-5)
    alone = find(decoders[0], questions, prefixes, beam_size=width)
    assert [h[0].ids for h in found] != [h[0].ids for h in alone]


def test_probabilities_that_underflow_do_not_vanish():
    class Far:
        def __init__(self, row):
            self.row = np.array([[row]], np.float32)

        def rows(self):
            return self.row.copy()

    mean = _mean([Far([0.0, -800.0]), Far([0.0, -900.0])]).rows()
    assert mean[0, 0] == pytest.approx([0.0, -800 - np.log(2)])


def test_one_decoder_stays_as_it_is():
    decoder = TorchDecoder(toy())
    assert as_one(decoder) is decoder and as_one([decoder]) is decoder
    assert isinstance(as_one([decoder, decoder]), Ensemble)


def test_the_shortest_table_of_positions_limits_all():
    tables = [toy(positions="learned", max_positions=n) for n in (9, 6)]
    assert Ensemble([TorchDecoder(m) for m in (toy(), *tables)]).max_target == 6


def test_members_must_fit_together():
    with pytest.raises(InputError, match="given no models"):
        as_one([])
    with pytest.raises(InputError, match="are no ensemble"):
        as_one([TorchDecoder(toy()), TorchDecoder(toy(vocab_size=13))])
    with pytest.raises(InputError, match="are no ensemble"):
        as_one([TorchDecoder(toy()), TorchDecoder(toy(kind="language-model"))])
