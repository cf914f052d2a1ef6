"""Subwords: reversible, reproducible, and each knows where in the text it stands."""

from io import BytesIO
from unicodedata import normalize

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import tokenizer as tokenizer_module
from glassformer.data.tokenizer import BOS, EOS, LONGEST, PAD, UNK, Tokenizer
from glassformer.errors import DataError

TEXT = [
    "A dog runs in the park.",
    "Two cats sleep under the old table.",
    "L'homme âgé mange une pomme à l'école.",
    "Où est-ce que les enfants ont déjà joué ?",
    "the dogs and the cats run and sleep under the tables of the school",
]
KINDS = ["bpe", "unigram"]
LARGER = {"bpe": 120, "unigram": 60}  # than the characters, within what TEXT can give


def learned(kind: str, **options) -> Tokenizer:
    return Tokenizer.train(TEXT * 10, options.pop("vocab_size", LARGER[kind]), kind, **options)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request) -> Tokenizer:
    return learned(request.param)


def test_the_marks_have_their_ids_and_no_text_is_made_of_them(tokenizer):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert min(i for ids in tokenizer.encode(TEXT) for i in ids) > EOS


def test_text_comes_back_from_its_subwords(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert [tokenizer.decode(row) for row in ids] == TEXT
    assert max(map(max, ids)) < len(tokenizer)
    assert all(len(row) < len(text) for row, text in zip(ids, TEXT, strict=True))


def test_pieces_spell_the_text(tokenizer):
    for text, ids in zip(TEXT, tokenizer.encode(TEXT), strict=True):
        assert "".join(tokenizer.pieces(ids)) == "▁" + text.replace(" ", "▁")


def test_decoding_drops_marks_and_padding(tokenizer):
    (ids,) = tokenizer.encode(TEXT[:1])
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == TEXT[0]


def test_threads_change_nothing(tokenizer):
    assert tokenizer.encode(TEXT * 5, threads=2) == tokenizer.encode(TEXT * 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_text_has_a_smaller_vocabulary_which_works(kind):
    tokenizer = learned(kind, vocab_size=8_000)
    assert EOS < len(tokenizer) < 8_000
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(TEXT)] == TEXT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 12])
def test_a_vocabulary_smaller_than_the_characters_is_refused(kind, size):
    with pytest.raises(DataError) as caught:
        learned(kind, vocab_size=size)
    assert f"{size} subwords" in caught.value.what
    assert "sentencepiece says" in caught.value.why
    assert "vocab_size" in caught.value.remedy


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_at_all_is_refused(kind):
    with pytest.raises(DataError, match="more text"):
        Tokenizer.train([], 100, kind)


def test_what_goes_wrong_with_the_sentences_is_told_as_it_is():
    def sentences():
        yield from TEXT
        raise DataError("text.en:6 is bad.", "It is empty.", "Correct it.")

    with pytest.raises(DataError) as caught:
        Tokenizer.train(sentences(), LARGER["bpe"])
    assert caught.value.what == "text.en:6 is bad."
    assert caught.value.remedy == "Correct it."


def test_sentences_may_come_from_a_generator():
    streamed = Tokenizer.train((text for text in TEXT * 10), LARGER["bpe"])
    assert streamed.fingerprint == learned("bpe").fingerprint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("long", [f"{'dog ' * 2_000}wx", "é" * LONGEST + "wx"], ids=["words", "é"])
def test_a_long_text_is_learned_from_to_its_end(kind, long):
    """By default sentencepiece skips it."""
    tokenizer = Tokenizer.train([*TEXT * 10, long], LARGER[kind], kind)
    assert UNK not in tokenizer.encode(["wx é"])[0]
    assert UNK in learned(kind).encode(["wx"])[0]


@given(st.text(alphabet="a é日🙂", max_size=60), st.integers(4, 30))
def test_what_is_too_long_is_cut_at_spaces_and_not_within_characters(text, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "LONGEST", longest)
        pieces = list(tokenizer_module._short([text]))
    assert "".join(pieces) == text
    assert all(len(piece.encode()) <= longest for piece in pieces)
    if len(text.encode()) <= longest:
        assert pieces == [text]
    for piece in pieces[:-1]:
        assert piece.endswith(" ") or " " not in piece[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_spell_what_was_never_seen(kind):
    text = "日本 dog ☃"
    without, spelling = learned(kind), learned(kind, vocab_size=400, byte_fallback=True)
    assert UNK in without.encode([text])[0]
    (ids,) = spelling.encode([text])
    assert UNK not in ids
    assert spelling.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_folded_text_is_read_in_small_letters_whatever_it_is_written_in(kind):
    folded, plain = learned(kind, fold_case=True), learned(kind)
    written = [*TEXT, *(change(text) for text in TEXT for change in (str.upper, str.title))]
    small = folded.encode([text.lower() for text in written])
    assert folded.encode(written) == small and UNK not in {i for ids in small for i in ids}
    assert [folded.decode(ids) for ids in small] == [text.lower() for text in written]
    pieces = folded.pieces(range(EOS + 1, len(folded)))
    assert [piece for piece in pieces if piece != piece.lower()] == []
    assert plain.encode(["A"]) != plain.encode(["a"])


@pytest.mark.parametrize("kind", KINDS)
def test_folding_is_part_of_the_tokenizers_bytes(kind):
    folded = learned(kind, fold_case=True)
    assert folded.fingerprint != learned(kind).fingerprint
    assert learned(kind, fold_case=False).fingerprint == learned(kind).fingerprint
    assert Tokenizer(folded.model).encode(["THE CATS"]) == folded.encode(["the cats"])


@pytest.mark.parametrize("text", ["A Dog  IN the PARK", "L'E\u0301COLE déjÀ"], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_spans_of_folded_text_point_at_what_was_written(kind, text):
    folded = learned(kind, fold_case=True)
    spans, (ids,) = folded.spans(text), folded.encode([text])
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(text)
    for (begin, end), piece in zip(spans, folded.pieces(ids), strict=True):
        here = " ".join(normalize("NFC", text[begin:end]).lower().split())
        assert here == piece.replace("▁", " ").strip()


def test_a_draw_is_a_function_of_its_seed(tokenizer):
    draws = {seed: tokenizer.sample(TEXT, 0.3, seed) for seed in (0, 1, 2**31, 2**40 + 3)}
    for seed, drawn in reversed(draws.items()):
        assert tokenizer.sample(TEXT, 0.3, seed) == drawn
    assert len({str(drawn) for drawn in draws.values()}) == len(draws)


def test_the_generator_of_sentencepiece_has_no_part_in_a_draw(tokenizer):
    drawn = tokenizer.sample(TEXT * 5, 0.3, 1)
    tokenizer._pieces.encode(TEXT[0], enable_sampling=True, alpha=0.5, nbest_size=-1)
    assert tokenizer.sample(TEXT * 5, 0.3, 1) == drawn


def test_every_draw_decodes_to_the_text(tokenizer):
    for seed in range(10):
        assert [tokenizer.decode(ids) for ids in tokenizer.sample(TEXT, 0.3, seed)] == TEXT


def test_drawing_changes_no_encoding(tokenizer):
    before = tokenizer.encode(TEXT)
    tokenizer.sample(TEXT, 0.5, 1)
    assert tokenizer.encode(TEXT) == before


def test_bpe_draws_shorter_pieces_the_more_merges_are_left_out():
    tokenizer = learned("bpe")
    lengths = [sum(map(len, tokenizer.sample(TEXT * 20, alpha, 1))) for alpha in (0.0, 0.2, 0.8)]
    assert lengths == sorted(set(lengths))
    assert tokenizer.sample(TEXT, 0.0, 1) == tokenizer.encode(TEXT)


def test_unigram_draws_the_likeliest_split_more_often_the_higher_alpha_is():
    tokenizer = learned("unigram")
    likeliest = tokenizer.encode(TEXT * 20)

    def agreement(alpha: float) -> int:
        drawn = tokenizer.sample(TEXT * 20, alpha, 1)
        return sum(a == b for a, b in zip(drawn, likeliest, strict=True))

    assert agreement(0.05) < agreement(20.0)


def test_a_tokenizer_is_its_bytes(tokenizer):
    twin = Tokenizer(tokenizer.model)
    assert twin.fingerprint == tokenizer.fingerprint
    assert twin.encode(TEXT) == tokenizer.encode(TEXT)


def test_other_models_have_other_fingerprints():
    models = learned("bpe"), learned("unigram"), learned("bpe", vocab_size=LARGER["bpe"] - 1)
    assert len({model.fingerprint for model in models}) == 3
    assert learned("bpe").fingerprint == models[0].fingerprint


@pytest.mark.parametrize(
    "text", [*TEXT, "à  l'école   déjà", "âgé où", "L'homme  l'e\u0301cole"], ids=repr
)
def test_spans_point_at_the_characters_of_each_subword(tokenizer, text):
    spans = tokenizer.spans(text)
    (ids,) = tokenizer.encode([text])
    assert spans[-1][1] == len(text)
    end = 0
    for (begin, stop), piece in zip(spans, tokenizer.pieces(ids), strict=True):
        assert begin == end, "subwords stand side by side"
        end = stop
        here = " ".join(text[begin:stop].replace("e\u0301", "é").split())
        assert here == piece.replace("▁", " ").strip()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", ["x² ½ ﬁ ＡＢ ™", "😀 👨‍👩‍👧 漢字 ﷺ", 'if (a<b) { c[1] = "~`^|"; }', "€12.50"]
)
def test_with_identity_and_bytes_any_text_comes_back_to_the_letter(kind, text):
    tokenizer = learned(kind, vocab_size=450, byte_fallback=True, identity=True)
    (ids,) = tokenizer.encode([text])
    assert UNK not in ids and tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_split_digits_are_subwords_of_their_own(kind):
    text = [*TEXT * 10, *["In 1999 and 2024 there were 1999 of them."] * 20]
    tokenizer = Tokenizer.train(text, 400, kind, byte_fallback=True, split_digits=True)
    pieces = tokenizer.pieces(tokenizer.encode(["1999 2024 777"])[0])
    assert [p for p in pieces if p != "▁"] == list("19992024777")


def test_tags_have_ids_that_no_text_is_split_into():
    tokenizer = Tokenizer.train([*TEXT, "<2fr> a tag", "<2fr>"], 60, tags=["<2en>", "<2fr>"])
    ids = {tokenizer.tag_id(tag) for tag in ("<2en>", "<2fr>")}
    assert len(ids) == 2
    assert not ids & {i for row in tokenizer.encode(["<2fr>", "a<2en>b", "<2fr> x"]) for i in row}
    assert tokenizer.decode([*ids, *tokenizer.encode(["a tag"])[0]]) == "a tag"


def test_folding_case_does_not_go_with_identity():
    with pytest.raises(DataError, match="fold_case = false"):
        Tokenizer.train(TEXT, 60, fold_case=True, identity=True)


@pytest.mark.parametrize("model", [b"", b"\0" * 100, b"not subwords", bytes(range(256)) * 9])
def test_what_is_no_model_of_sentencepiece_is_refused(model: bytes) -> None:
    with pytest.raises(DataError, match=r"no subwords|foreign"):
        Tokenizer(model)


def test_subwords_with_other_marks_are_refused() -> None:
    """T5 has its end at 1, and nothing for the beginning: every id would mean something else."""
    written = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog sees a cat", "the cat sees"] * 9), model_writer=written,
        vocab_size=25, model_type="bpe", hard_vocab_limit=False, minloglevel=2,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )  # fmt: skip
    with pytest.raises(
        DataError, match=r"foreign: the ids of pad, unk, bos, eos are \[0, 2, -1, 1\]"
    ):
        Tokenizer(written.getvalue())
