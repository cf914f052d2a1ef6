"""HTML to texts and back: every tag stays, and every character of what is not translated."""

import time

from hypothesis import given
from hypothesis import strategies as st

from glassformer.serve.markup import Document, Run, tokens

PIECES = st.sampled_from([
    "<p>", "</p>", "<b>", "</b>", "a word", " ", "<", ">", "&amp;", "&lt;b&gt;", "<!--", "-->",
    "<script>", "</script>", "<br/>", "<CODE>", "</CODE>", "<a href='x'>", "</a>", "\n", "é",
])  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_the_tokens_of_html_join_to_the_html(html: str) -> None:
    assert "".join(token.text for token in tokens(html)) == html
    document = Document(html)
    parts = ["".join(t.text for t in p.tokens) if isinstance(p, Run) else p.text
             for p in document.parts]  # fmt: skip
    assert "".join(parts) == html


@given(st.lists(PIECES, max_size=30).map("".join))
def test_putting_the_same_texts_back_changes_entities_only(html: str) -> None:
    document = Document(html)
    same = document.join([run.from_texts(run.texts) for run in document.runs])
    again = Document(same)
    assert [run.texts for run in again.runs] == [run.texts for run in document.runs]
    assert [run.tags for run in again.runs] == [run.tags for run in document.runs]


def test_inline_tags_stay_in_a_run_and_others_end_it() -> None:
    runs = Document("<p>a <b>b</b> c</p><div>d &amp; e<br>f</div>").runs
    assert [run.whole for run in runs] == ["a <b>b</b> c", "d & e", "f"]


def test_code_comments_and_scripts_are_not_translated() -> None:
    html = "<pre>a</pre><!-- b --><SCRIPT>c < d</SCRIPT><style>e</style><p>f</p>"
    assert [run.texts for run in Document(html).runs] == [["f"]]


def test_a_translation_with_other_tags_is_refused() -> None:
    (run,) = Document("a <b>c</b>").runs
    assert run.from_whole("x <b>y</b>") == "x <b>y</b>"
    assert run.from_whole("x & <b>y</b>") == "x &amp; <b>y</b>"
    for wrong in ("x y", "</b>x<b>", "x <b>y</b><i>", "x < <b>y</b>"):
        assert run.from_whole(wrong) is None


def test_text_that_reads_like_a_tag_is_translated_between_the_tags() -> None:
    (run,) = Document("a &lt;b&gt; <i>c</i>").runs
    assert run.whole is None
    assert run.from_texts(["x <b>", "y"]) == "x &lt;b&gt;<i>y</i>"


def test_html_that_closes_nothing_takes_linear_time() -> None:
    began = time.process_time()
    for piece in ("<!--", "<b", "<script>", "<", "<pre><code>"):
        html = piece * 20_000
        assert "".join(token.text for token in tokens(html)) == html
    assert time.process_time() - began < 5
