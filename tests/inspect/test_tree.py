"""The search tree: numbers of the search and the fate of every branch."""

from dataclasses import replace
from itertools import pairwise
from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decode.oracles import Next, TreeDecoder, remembering, sources, toy, tree
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.decode.search import force_decode, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.inspect.tree import FATES, Node, SearchTree, best, path

WAYS = [
    {"beam_size": 1},
    {"beam_size": 3, "n_best": 2},
    {"beam_size": 4, "length_penalty": -0.5},
    {"sample": True, "n_best": 3, "beam_size": 1},
]


def watched(trees: list[Next], limit: int, options: SearchOptions):
    """Search `trees`; return the answers and the nodes that the observer saw."""
    observer, rows = SearchTree(BOS, EOS, options), [[i] for i in range(len(trees))]
    options = replace(options, max_length=limit)
    found = search(TreeDecoder(trees), rows, BOS, EOS, options, observer=observer)
    return found, [observer.nodes(i) for i in range(len(trees))]


def tokens_of(nodes: list[Node], last: int) -> list[int]:
    return [nodes[i].token for i in path(nodes, last)]


def answers(nodes: list[Node]) -> list[Hypothesis]:
    """Return the finished hypotheses of the tree."""
    ended = [i for i, node in enumerate(nodes) if node.fate in ("best", "finished")]
    return [
        Hypothesis(
            tokens_of(nodes, i)[: -1 if nodes[i].complete else None],
            nodes[i].log_probability,
            nodes[i].score,
            bool(nodes[i].complete),
        )
        for i in sorted(ended, key=lambda i: -nodes[i].score)
    ]


CASES = st.fixed_dictionaries(
    {
        "seeds": st.lists(st.integers(0, 999), min_size=1, max_size=5),
        "limit": st.integers(1, 6),
        "vocab_size": st.integers(5, 9),
        "sharpness": st.sampled_from([0.5, 2.0, 6.0]),
        "way": st.sampled_from(WAYS),
    }
)


@given(case=CASES)
@settings(max_examples=150, deadline=None)
def test_the_tree_has_every_candidate_with_its_fate(case):
    trees = [remembering(tree(s, case["vocab_size"], case["sharpness"])) for s in case["seeds"]]
    limit, options = case["limit"], SearchOptions(**case["way"])
    found, grown = watched(trees, limit, options)
    for one, hypotheses, nodes in zip(trees, found, grown, strict=True):
        assert answers(nodes) == hypotheses  # to the last bit
        check_numbers(nodes, one)
        check_fates(nodes, limit, options)


def check_numbers(nodes: list[Node], model: Next) -> None:
    """Check the log-probability and the next tokens of every node."""
    for i, node in enumerate(nodes[1:], 1):
        assert node.parent is not None and node.parent < i
        parent = nodes[node.parent]
        row = model([tuple(tokens_of(nodes, node.parent))])[0]
        assert node.log_probability - parent.log_probability == pytest.approx(row[node.token])
        likely = sorted(((p, token) for token, p in enumerate(row)), reverse=True)[:10]
        assert [token for token, _ in parent.next] == [token for _, token in likely]
        assert [p for _, p in parent.next] == pytest.approx([p for p, _ in likely])
    assert sum(exp(p) for _, p in nodes[0].next) == pytest.approx(1)  # toy vocabularies are small


def check_fates(nodes: list[Node], limit: int, options: SearchOptions) -> None:
    width = options.n_best if options.sample else options.beam_size
    children = {i: [n for n in nodes if n.parent == i] for i in range(len(nodes))}
    depths = [len(path(nodes, i)) for i in range(len(nodes))]
    last = max(depths)
    kept = ("went on", "overtaken", "given up")
    ranked = sorted((n.score for n in nodes if n.complete is not None), reverse=True)
    for i, node in enumerate(nodes):
        assert node.fate in FATES
        assert (node.complete is None) == (node.fate in (*kept, "pruned"))
        if node.fate == "went on":
            assert any(child.fate != "pruned" for child in children[i])
        else:
            assert all(child.fate == "pruned" for child in children[i])
        if node.fate == "given up":
            assert depths[i] == last and not node.next and ranked
        if node.fate == "outscored":
            assert node.score <= ranked[options.n_best - 1]
        if node.complete is False:
            assert depths[i] == limit and node.token != EOS
        if node.complete:
            assert node.token == EOS
    for depth in range(1, last + 1):
        level = [n for n, d in zip(nodes, depths, strict=True) if d == depth]
        dropped = [n.log_probability for n in level if n.fate == "pruned"]
        alive = [n.log_probability for n in level if n.fate in kept]
        assert len(alive) <= width
        assert not options.sample or not dropped
        if dropped and alive and not any(n.fate == "pruned" and n.token == EOS for n in level):
            assert max(dropped) <= min(alive)


A, B, C = 4, 5, 6
FLAT = {EOS: 0.25, A: 0.25, B: 0.25, C: 0.25}


def fates(table: dict[tuple[int, ...], dict[int, float]]) -> dict[tuple[int, ...], str]:
    """Return the fate of every candidate of a beam of two, for a model with these probabilities."""

    def model(prefixes):
        rows = [table.get(prefix, FLAT) for prefix in prefixes]
        return [torch.tensor([r.get(i, 1e-9) for i in range(7)]).log().tolist() for r in rows]

    _, (nodes,) = watched([model], 6, SearchOptions(beam_size=2, length_penalty=0.0))
    return {tuple(tokens_of(nodes, i)): node.fate for i, node in enumerate(nodes)}


def test_hypotheses_that_cannot_win_are_given_up():
    found = fates(
        {
            (): {A: 0.5, B: 0.4, C: 0.1},
            (A,): {EOS: 0.1, A: 0.4, B: 0.3, C: 0.2},
            (B,): {EOS: 0.9, C: 0.1},
        }
    )
    assert found == {
        (): "went on",
        (A,): "went on",  # 0.5: its continuations are in the beam when …
        (B,): "went on",
        (C,): "pruned",
        (B, EOS): "best",  # … this finishes with 0.36, which they cannot reach
        (A, A): "given up",
        (A, B): "given up",
        (A, C): "pruned",
    } | {key: "pruned" for key in found if len(key) == 1 and key[0] not in (A, B)}


def test_hypotheses_without_continuation_in_the_beam_are_overtaken():
    found = fates(
        {
            (): {A: 0.5, B: 0.4, C: 0.1},
            (A,): FLAT,
            (B,): {A: 0.5, B: 0.45, EOS: 0.05},
        }
    )
    assert found[(A,)] == "overtaken"
    assert {fate for ids, fate in found.items() if ids[:1] == (A,) and len(ids) == 2} == {"pruned"}
    assert found[(B,)] == found[(B, A)] == "went on"


def test_a_finished_hypothesis_below_the_n_best_is_outscored():
    found = fates({(): {EOS: 0.12, A: 0.8, B: 0.08}, (A,): {EOS: 0.9, B: 0.1}})
    assert found[(EOS,)] == "outscored" and found[(A, EOS)] == "best"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_tree_of_a_model_equals_forced_decoding(way):
    decoder, source = TorchDecoder(toy()), sources(5)
    options = SearchOptions(max_length=7, **way)
    observer = SearchTree(BOS, EOS, options, top=3)
    ((first, *_),) = search(decoder, source, BOS, EOS, options, observer=observer)
    nodes = observer.nodes()
    line = path(nodes, best(nodes))
    tokens = [nodes[i].token for i in line]
    assert tokens == first.ids + ([EOS] if first.complete else [])
    forced = force_decode(decoder, source, [tokens], BOS)[0].tolist()
    totals = [0.0, *(nodes[i].log_probability for i in line)]
    assert [b - a for a, b in pairwise(totals)] == pytest.approx(forced, abs=1e-5)
    for before, at, log_prob in zip([0, *line], line, forced, strict=False):
        likeliest_ones = dict(nodes[before].next)
        assert len(likeliest_ones) == 3
        if (token := nodes[at].token) in likeliest_ones:
            assert likeliest_ones[token] == pytest.approx(log_prob, abs=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_observing_changes_nothing_and_trees_do_not_depend_on_the_batch(way):
    decoder, rows = TorchDecoder(toy()), sources(5, 2, 7)
    options = SearchOptions(max_length=6, **way)
    observer = SearchTree(BOS, EOS, options)
    found = search(decoder, rows, BOS, EOS, options, observer=observer)
    assert found == search(decoder, rows, BOS, EOS, options)
    for number, row in enumerate(rows):
        alone = SearchTree(BOS, EOS, options)
        search(decoder, [row], BOS, EOS, options, None, [number], alone)
        shapes = [
            [(n.parent, n.token, n.fate, n.complete) for n in seen]
            for seen in (alone.nodes(), observer.nodes(number))
        ]
        assert shapes[0] == shapes[1]


def test_a_prefix_is_part_of_the_tree():
    decoder, prefixes = TorchDecoder(toy(kind="language-model")), [[5, 6, 7], [4]]
    options = SearchOptions(beam_size=2, max_length=6)
    observer = SearchTree(BOS, EOS, options)
    found = search(decoder, None, BOS, EOS, options, prefixes, observer=observer)
    for number, ((answer,), prefix) in enumerate(zip(found, prefixes, strict=True)):
        nodes = observer.nodes(number)
        line = path(nodes, best(nodes))
        assert [nodes[i].token for i in line][: len(prefix)] == prefix
        assert nodes[line[-1]].log_probability == pytest.approx(answer.log_probability, abs=1e-6)
        assert all(nodes[i].next for i in [0, *line[:-1]])


def test_next_tokens_have_the_probabilities_before_constraints():
    """A token that may not repeat is still shown with its probability."""
    decoder, source = TorchDecoder(toy()), sources(4)
    options = SearchOptions(beam_size=2, no_repeat_ngram=1, max_length=5)
    observer = SearchTree(BOS, EOS, options, top=12)
    search(decoder, source, BOS, EOS, options, observer=observer)
    nodes = observer.nodes()
    for node in nodes:
        if node.next:
            assert len(node.next) == 12
            assert sum(exp(p) for _, p in node.next) == pytest.approx(1, abs=1e-5)
