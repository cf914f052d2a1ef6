"""Figures of a trace."""

import sys
from xml.etree import ElementTree

import pytest
import torch

from glassformer.errors import DataError, InputError, MissingPackageError
from glassformer.inspect import pictures
from glassformer.inspect.heads import distance, entropy
from glassformer.inspect.pictures import PLAIN_WORDS, TOKENS, View, by_row, shown
from glassformer.inspect.rollout import rollout
from glassformer.inspect.trace import Trace, trace_of

pytest.importorskip("matplotlib")

TEXT = "two old cats, a dog"
NASTY = '$x$ </text><script> & " \u202e שלום ☃'


@pytest.fixture
def translation(untrained) -> Trace:
    return trace_of(untrained(), TEXT, "l'un voit le thé")


@pytest.fixture
def decision(untrained) -> Trace:
    return trace_of(untrained("classifier"), TEXT)


def cells(axes) -> torch.Tensor:
    (image,) = axes.images
    return torch.tensor(image.get_array().tolist())


def labels(axis) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def test_the_cells_of_one_head_equal_the_attention(translation: Trace) -> None:
    for kind, weights in translation.attention.items():
        axes = pictures.head_figure(translation, kind, 1, 0).axes[0]
        torch.testing.assert_close(cells(axes), weights[1, 0], atol=0, rtol=1e-6)
        torch.testing.assert_close(cells(axes).sum(-1), torch.ones(weights.size(2)))
        assert axes.images[0].get_clim() == (0, 1)
        rows, columns = translation.sides(kind)
        assert len(labels(axes.yaxis)) == len(rows.ids)
        assert len(labels(axes.xaxis)) == len(columns.ids)
        assert "layer 2, head 1" in axes.get_title()
    read = labels(pictures.head_figure(translation, "decoder", 0, 0).axes[0].xaxis)
    assert read[0] == "<s>" and "</s>" not in read


def test_every_head_has_its_axes(translation: Trace) -> None:
    figure = pictures.heads_figure(translation, "cross")
    drawn = {axes.get_title(): cells(axes) for axes in figure.axes[:4]}
    for layer in range(2):
        for head in range(2):
            expected = translation.attention["cross"][layer, head]
            torch.testing.assert_close(drawn[f"{layer + 1}.{head + 1}"], expected)


def test_words_are_merged_and_marks_hidden_on_request(translation: Trace) -> None:
    rows, columns, weights = shown(translation, "cross", PLAIN_WORDS)
    assert columns == ["two", "old", "cats", ",", "a", "dog"]
    assert rows == ["l'un", "voit", "le", "thé"] and weights.shape == (2, 2, 4, 6)
    with_marks = shown(translation, "cross", View(words=True))
    assert with_marks[1] == [*columns, "</s>"] and with_marks[0] == [*rows, "</s>"]
    torch.testing.assert_close(with_marks[2].sum(-1), torch.ones(2, 2, 5))
    torch.testing.assert_close(with_marks[2][..., :4, :6], weights)
    end = translation.attention["cross"][..., -1]
    torch.testing.assert_close(with_marks[2][..., 4, 6], end[..., -1])
    without = shown(translation, "cross", View(marks=False))[2]
    assert torch.equal(without, translation.attention["cross"][..., :-1, :-1])
    assert torch.equal(shown(translation, "cross", TOKENS)[2], translation.attention["cross"])
    figure = pictures.heads_figure(translation, "cross", PLAIN_WORDS)
    torch.testing.assert_close(cells(figure.axes[3]), weights[1, 1])


def test_entropy_and_distance_of_every_head_are_shown(translation: Trace) -> None:
    figure = pictures.measures_figure(translation)
    drawn = {axes.get_title(): axes for axes in figure.axes}
    for kind, weights in translation.attention.items():
        for name, measure in (("entropy (bits)", entropy), ("distance (tokens)", distance)):
            axes = drawn[f"{kind}: {name}"]
            expected = measure(weights).mean(-1)
            torch.testing.assert_close(cells(axes), expected)
            told = sorted(text.get_text() for text in axes.texts)
            assert told == sorted(f"{value:.1f}" for value in expected.flatten().tolist())


def test_the_saliency_figure_has_rollout_saliency_and_a_caution(translation: Trace) -> None:
    figure = pictures.saliency_figure(translation, TOKENS)
    drawn = [cells(axes) for axes in figure.axes]
    flow, gradient = rollout(translation.attention), translation.saliency
    expected = [cells for way in (flow, gradient) for cells in by_row(way["source"], way["target"])]
    for found, rows in zip(drawn, expected, strict=True):
        torch.testing.assert_close(found, rows)
    for one, other in (drawn[:2], drawn[2:]):  # the same scale on both sides
        assert (torch.cat([one, other], 1).abs().amax(1) == 1).all()
    assert "Attention is not explanation" in figure.get_supxlabel()
    language = pictures.saliency_figure(translation)
    assert len(labels(language.axes[0].yaxis)) == 4  # words


def test_rows_are_divided_by_their_largest_magnitude() -> None:
    (rows,) = by_row(torch.tensor([[1.0, -4.0], [0.0, 0.0], [0.5, 0.25]]))
    assert rows.tolist() == [[0.25, -1.0], [0.0, 0.0], [1.0, 0.5]]
    one, other = by_row(torch.tensor([[1.0], [2.0]]), torch.tensor([[-4.0, 2.0], [0.0, 1.0]]))
    assert one.tolist() == [[0.25], [1.0]] and other.tolist() == [[-1.0, 0.5], [0.0, 0.5]]
    assert by_row(torch.zeros(2, 0))[0].shape == (2, 0)


def test_the_decision_figure_shows_the_influence_of_words(decision: Trace) -> None:
    label, columns = pictures.decision(decision)
    assert label == max(decision.probabilities, key=decision.probabilities.get)
    row = list(decision.probabilities).index(label)
    tokens = decision.saliency["source"][row]
    for word, value in zip(decision.source.words, columns["gradient"], strict=True):
        torch.testing.assert_close(value, tokens[word.start : word.end].sum())
    assert torch.equal(columns["left out"], decision.saliency["left_out"][row])
    assert columns["rollout"].sum() <= 1 + 1e-6
    figure = pictures.saliency_figure(decision)
    for axes, values in zip(figure.axes, columns.values(), strict=True):
        widths = [bar.get_width() for bar in axes.patches]
        assert widths == pytest.approx(values.tolist())
    names = labels(figure.axes[0].yaxis)
    assert names == [word.text for word in decision.source.words]
    assert label in figure.get_suptitle() and "rank correlation" in figure.get_suptitle()
    assert "not explanation" in figure.get_supxlabel()


def test_the_rollout_of_a_decision_follows_the_pooling(untrained) -> None:
    for pooling in ("first", "mean"):
        trace = trace_of(untrained("classifier", pooling=pooling), TEXT)
        flow = rollout(trace.attention)["encoder"]
        pooled = flow[0] if pooling == "first" else flow.mean(0)
        expected = [pooled[w.start : w.end].sum().item() for w in trace.source.words]
        _, columns = pictures.decision(trace)
        assert columns["rollout"].tolist() == pytest.approx(expected)


def test_a_long_text_shows_its_most_influential_words(untrained) -> None:
    trace = trace_of(untrained("classifier"), "a dog " * 40, truncate=True)
    figure = pictures.decision_figure(trace)
    names = labels(figure.axes[0].yaxis)
    assert len(names) == min(pictures.MAX_WORDS, len(trace.source.words))


def test_word_links_are_those_of_the_mean_by_share(translation: Trace) -> None:
    rows, columns, weights = shown(translation, "cross", PLAIN_WORDS)
    above, below, *_ = pictures.word_links(translation).axes
    seen = weights.mean((0, 1))
    torch.testing.assert_close(cells(below), seen)
    assert (labels(below.yaxis), labels(below.xaxis)) == (rows, columns)
    frames = {(round(p.get_x() + 0.5), round(p.get_y() + 0.5)) for p in below.patches}
    best = (seen / seen.sum(0)).argmax(1).tolist()
    assert frames == {(source, target) for target, source in enumerate(best)}
    assert len(above.lines) == len(rows)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "translator",
            ["encoder", "decoder", "cross", "cross-words", "links", "heads", "saliency"],
        ),
        ("language-model", ["decoder", "heads", "saliency"]),
        ("classifier", ["encoder", "heads", "saliency"]),
    ],
)
def test_every_kind_of_trace_has_its_figures(untrained, tmp_path, monkeypatch, kind, names) -> None:
    options = {} if kind == "classifier" else {"max_length": 6}
    trace = trace_of(untrained(kind), "a dog", **options)
    written = []
    monkeypatch.setattr(pictures, "save", lambda figure, path: written.append(path))
    assert pictures.save_all(trace, tmp_path, "png") == written
    assert [path.name for path in written] == [f"{name}.png" for name in names]


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_figures_are_saved_for_any_text(untrained, tmp_path, suffix, start) -> None:
    trace = trace_of(untrained(), NASTY, "un", truncate=True)
    path = tmp_path / "new" / f"picture.{suffix}"
    contents = []
    for _ in range(2):
        pictures.save(pictures.head_figure(trace, "cross", 0, 0), path)
        contents.append(path.read_bytes())
    assert contents[0].startswith(start) and contents[0] == contents[1]
    if suffix == "svg":
        tree = ElementTree.fromstring(contents[0])
        assert not [e for e in tree.iter() if e.tag.endswith("script")]


def test_text_is_not_parsed_as_math_or_markup(untrained, tmp_path) -> None:
    trace = trace_of(untrained(), "a $dog$ & a cat", "un")
    path = tmp_path / "head.svg"
    pictures.save(pictures.head_figure(trace, "cross", 0, 0, View(words=True)), path)
    texts = [e.text for e in ElementTree.parse(path).iter() if e.tag.endswith("text")]
    for word in trace.source.groups():
        assert word.text in texts


def test_long_labels_are_cut() -> None:
    assert pictures.short("a" * 20) == "a" * 20
    assert pictures.short("a" * 21) == "a" * 19 + "…"


def test_control_characters_are_replaced() -> None:
    assert pictures.printable("a\u202eb\x1b[2J☃") == "a\ufffdb\ufffd[2J☃"


def test_missing_attention_and_heads_are_errors_that_name_them(
    translation: Trace, decision: Trace
) -> None:
    with pytest.raises(InputError, match=r"no cross attention(?s:.)*classifier has encoder"):
        pictures.head_figure(decision, "cross", 0, 0)
    with pytest.raises(InputError, match=r"no head 2 in layer 0(?s:.)*heads 0 to 1"):
        pictures.head_figure(translation, "cross", 0, 2)
    with pytest.raises(InputError, match="translator has no labels"):
        pictures.decision_figure(translation)


def test_an_unwritable_path_is_named(translation: Trace, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        pictures.save(pictures.measures_figure(translation), tmp_path / "file" / "x.svg")


def test_missing_matplotlib_is_an_error_with_the_install_command(translation, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match="matplotlib"):
        pictures.measures_figure(translation)
