"""Failure analysis: every label against sentences judged by hand, and the report as a whole."""

import json

import pytest
import sacrebleu
import torch

from glassformer.config import RunSettings
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.errors import DataError
from glassformer.evaluate import failures
from glassformer.evaluate.card import markdown
from glassformer.evaluate.failures import (
    RareBucket,
    analyse,
    attention_use,
    by_length,
    by_rarity,
    neglected_words,
)
from glassformer.evaluate.labels import ALL_LABELS
from glassformer.model.build import build

ENGLISH = ["a dog", "the old cat sees a dog", "two children want some tea", "a house of tea"]
FRENCH = ["un chien", "le vieux chat voit un chien", "deux enfants veulent du thé", "la maison"]
TOKENIZER = Tokenizer.train((ENGLISH + FRENCH) * 5, 60)


class Forced:
    """The part of a translator that the analysis uses: a model, subwords and inputs."""

    def __init__(self, layers: int = 2) -> None:
        torch.manual_seed(0)
        sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "vocab_size": 60}
        depth = {"encoder_layers": 1, "decoder_layers": layers}
        self.model = build(RunSettings.of(model={**sizes, **depth}).model).eval()
        self.source_tokenizer = self.target_tokenizer = TOKENIZER
        self.max_length, self.max_target_length = 100, None

    def inputs(self, source, target):
        (x,), (y,) = TOKENIZER.encode([source]), TOKENIZER.encode([target])
        return pad([[*x, EOS]]), pad([[BOS, *y]])


# Cross-attention


def test_words_with_little_attention_are_reported():
    source, spans = "one two three", [(0, 3), (3, 5), (5, 7), (7, 13)]
    attention = torch.tensor([[0.5, 0.0, 0.02, 0.4, 0.08], [0.5, 0.03, 0.0, 0.4, 0.07]])
    assert neglected_words(attention, source, spans) == ["two"]


def test_attention_on_the_end_token_neglects_no_word():
    attention = torch.tensor([[0.01, 0.01, 0.01, 0.97]])
    assert neglected_words(attention, "a b c", [(0, 1), (1, 3), (3, 5)]) == []


def test_attention_is_the_mean_over_heads_of_the_last_layer():
    translator = Forced()
    source, output = ENGLISH[1], FRENCH[1]
    seen = {}

    def keep(module, args, kwargs):
        seen["x"], seen["memory"] = args[0], kwargs["memory"]

    cross = translator.model.decoder.layers[-1].cross_attention
    handle = cross.register_forward_pre_hook(keep, with_kwargs=True)
    use = attention_use(translator, source, output)
    handle.remove()
    with torch.inference_mode():
        q, (k, _) = cross.split_heads(cross.q(seen["x"])), cross.keys_values(seen["memory"])
        weights = (q @ k.transpose(-2, -1) / cross.d_k**0.5).softmax(-1)[0].mean(0)
    bits = torch.distributions.Categorical(weights).entropy().mean() / torch.tensor(2.0).log()
    assert use.end_share == pytest.approx(weights[:, -1].mean().item(), rel=1e-4)
    assert use.entropy == pytest.approx(bits.item(), rel=1e-4)
    assert use.relative_entropy == pytest.approx(
        bits.item() / torch.tensor(weights.size(1)).log2().item()
    )


def test_recording_attention_restores_the_kernels():
    translator = Forced()
    kernels = [m.kernel for m in translator.model.modules() if hasattr(m, "kernel")]
    attention_use(translator, ENGLISH[1], FRENCH[1])
    assert [m.kernel for m in translator.model.modules() if hasattr(m, "kernel")] == kernels


@pytest.mark.parametrize("source", ["", " ", "..."])
def test_a_source_without_words_has_no_attention(source):
    assert attention_use(Forced(), source, "un chien") is None


def test_an_empty_output_has_one_step():
    assert 0 < attention_use(Forced(), ENGLISH[1], "").end_share < 1


@pytest.mark.parametrize(
    ("limit", "text"), [("max_length", ENGLISH[1]), ("max_target_length", "un")]
)
def test_a_side_too_long_for_the_model_has_no_attention(limit, text):
    translator = Forced()
    (ids,) = TOKENIZER.encode([text])
    setattr(translator, limit, len(ids))
    assert attention_use(translator, ENGLISH[1], "un") is not None
    setattr(translator, limit, len(ids) - 1)
    assert attention_use(translator, ENGLISH[1], "un") is None


# Buckets


def test_length_buckets_hold_every_sentence_once_and_score_as_sacrebleu():
    sources = [" ".join("w" * n) for n in (0, 1, 5, 6, 10, 60)]
    references = ["un chien voit le chat"] * 6
    output = [*references[:3], "un chien voit un chat", "le chien voit le chat", "rien"]
    buckets = by_length(sources, references, output)
    assert [(b.words, b.sentences) for b in buckets] == [("0–5", 3), ("6–10", 2), ("over 50", 1)]
    for bucket, rows in zip(buckets, [slice(0, 3), slice(3, 5), slice(5, 6)], strict=True):
        bleu = sacrebleu.corpus_bleu(output[rows], [references[rows]])
        assert bucket.bleu == bleu.score
        assert bucket.chrf == sacrebleu.corpus_chrf(output[rows], [references[rows]]).score
        assert bucket.length_ratio == bleu.sys_len / bleu.ref_len


def test_rarity_buckets_equal_those_counted_by_hand():
    counts = {"le": 5000, "chat": 7, "chien": 3}
    references = ["le chat le lynx", "le chien"]
    output = ["le chat chat", "le loup"]
    assert by_rarity(references, output, counts) == [
        RareBucket("0", in_references=1, in_output=1, right=0),  # lynx; loup
        RareBucket("1–5", in_references=1, in_output=0, right=0),  # chien
        RareBucket("6–20", in_references=1, in_output=2, right=1),  # chat
        RareBucket("over 1,000", in_references=3, in_output=2, right=2),  # le
    ]


def test_recall_and_precision_of_no_words_are_none():
    assert RareBucket("0", 0, 2, 0).recall is None
    assert RareBucket("0", 2, 0, 0).precision is None
    assert RareBucket("0", 4, 2, 1).recall == 0.25 and RareBucket("0", 4, 2, 1).precision == 0.5


SOURCES = [*ENGLISH, "17 dogs of Anna"]
REFERENCES = [*FRENCH, "17 chiens d'Anna"]
OUTPUTS = [FRENCH[0], "le vieux chat voit un", "", "la maison maison", "71 dogs"]


@pytest.fixture(scope="module")
def report():
    return analyse(Forced(), SOURCES, REFERENCES, OUTPUTS)


def test_the_worst_come_first_without_exact_matches(report):
    scores = [failure.chrf for failure in report.worst]
    assert scores == sorted(scores)
    assert {failure.sentence for failure in report.worst} == {2, 3, 4, 5}
    for failure in report.worst:
        i = failure.sentence - 1
        assert (failure.source, failure.reference, failure.output) == (
            SOURCES[i], REFERENCES[i], OUTPUTS[i],
        )  # fmt: skip
        assert failure.chrf == sacrebleu.sentence_chrf(OUTPUTS[i], [REFERENCES[i]]).score
        assert failure.bleu == sacrebleu.sentence_bleu(OUTPUTS[i], [REFERENCES[i]]).score


def test_each_failure_has_its_labels(report):
    found = {failure.sentence: failure.problems for failure in report.worst}
    assert found[2] == {}
    assert set(found[3]) == {"empty"}
    assert found[4] == {"repeated": ["maison"]}
    assert set(found[5]) == {
        "numbers lost or changed", "names lost", "untranslated copies", "unknown words",
    }  # fmt: skip
    assert found[5]["names lost"] == ["Anna"] and found[5]["untranslated copies"] == ["dogs"]


def test_shares_are_of_all_sentences(report):
    assert set(report.shares) == {*ALL_LABELS, "none"}
    assert report.shares["empty"] == report.shares["repeated"] == 1 / 5
    assert report.shares["over-long"] == 0
    assert report.shares["none"] == 2 / 5


def test_attention_is_read_only_for_the_requested_number(monkeypatch):
    looked = []
    monkeypatch.setattr(failures, "attention_use", lambda t, source, output: looked.append(output))
    report = analyse(Forced(), SOURCES, REFERENCES, OUTPUTS, worst=1)
    assert [failure.sentence for failure in report.worst] == [3]
    assert looked == ["", FRENCH[0]]  # the worst, and the best beside it
    assert report.attention == {}


def test_no_sentence_is_both_best_and_worst(report):
    assert set(report.attention) == {"the worst", "the best"}
    everything_wrong = analyse(Forced(), SOURCES[1:], REFERENCES[1:], OUTPUTS[1:])
    assert set(everything_wrong.attention) == {"the worst"}


def test_the_report_names_the_text_words_were_counted_in():
    own = analyse(Forced(), SOURCES, REFERENCES, OUTPUTS)
    assert own.counts_from == "these references" and "in these references" in markdown(own.sheet())
    given = analyse(Forced(), SOURCES, REFERENCES, OUTPUTS, training_counts={"dogs": 3})
    assert given.counts_from == "the training text"
    assert "in the training text" in markdown(given.sheet())
    assert given.shares["untranslated copies"] == 0  # `dogs` is known


def test_exact_matches_are_no_failures():
    report = analyse(Forced(), SOURCES, REFERENCES, REFERENCES)
    assert report.worst == []
    assert {name: share for name, share in report.shares.items() if share} == {
        "none": 4 / 5, "unknown words": 1 / 5,
    }  # fmt: skip
    assert all(bucket.recall == bucket.precision == 1 for bucket in report.rarity)
    assert "sentence " not in markdown(report.sheet())


def test_the_report_survives_json(report):
    content = report.to_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["rarity"][0]["recall"] == report.rarity[0].recall


def test_markdown_has_every_table_and_every_worst_sentence(report):
    text = markdown(report.sheet())
    for table in report.tables():
        assert f"## {table.title}" in text
        assert all(len(row) == len(table.columns) for row in table.rows)
    for failure in report.worst:
        assert f"## sentence {failure.sentence}: chrF" in text
    assert "repeated: maison" in text and "| labels | none |" in text and "on </s>" in text


def test_lists_of_different_length_are_refused():
    with pytest.raises(DataError, match="5 sources, 5 references, 4 translations"):
        analyse(Forced(), SOURCES, REFERENCES, OUTPUTS[1:])
