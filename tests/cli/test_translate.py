"""`glassformer translate`: lines in, lines out, whatever they hold."""

import gzip
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import two_way
from cli.models import LONGEST, TEXTS, type_in, write_model
from glassformer import checkpoint
from glassformer.data.sentences import sentences
from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.options import SearchOptions
from glassformer.pipeline import Translation, Translator, load_translator
from glassformer.pipeline.protect import protect
from pretrained.stand_ins import bundle
from train.runs import Command

Run = Callable[..., list[str]]
STORY = "the old cat. The dog sees tea. Some children"


@pytest.fixture
def command(glassformer: Command) -> Command:
    """The command, with a translator in `run`."""
    write_model()
    return glassformer


@pytest.fixture
def translate(command: Command) -> Run:
    """The lines of a translation that goes well."""

    def msg(*arguments: object) -> list[str]:
        code, out, err = command("translate", "--model", "run", "--threads", 1, *arguments)
        assert (code, err) == (0, "")
        assert not out or out.endswith("\n")
        return out.split("\n")[:-1]

    return msg


def n_best(texts: list[str], **options: Any) -> list[list[Translation]]:
    return load_translator("run").n_best(texts, SearchOptions(**options))


def restored(text: str, answers: list[str]) -> str:
    """The answers to the sentences of a text, with the capitals that these begin with."""
    pairs = zip(sentences(text), answers, strict=True)
    return " ".join(protect(sentence).restore(answer) for sentence, answer in pairs)


# Where text comes from


def test_arguments_a_file_and_standard_input_say_the_same(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_translator("run").translate(TEXTS)
    assert len(set(expected)) >= 3
    content = "".join(f"{text}\n" for text in TEXTS)
    assert translate(*TEXTS) == expected
    Path("texts").write_text(content)
    assert translate("--file", "texts") == expected
    Path("texts.gz").write_bytes(gzip.compress(content.encode()))
    assert translate("--file", "texts.gz") == expected
    for typed in (content, content[:-1], content.replace("\n", "\r\n"), "\ufeff" + content):
        type_in(monkeypatch, typed)
        assert translate() == expected


def test_many_lines_keep_their_order(translate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one turn, and more than is read at once."""
    few = [f"{text} {more}" for text in TEXTS for more in ("", "tea", "a cat " * 4)]
    short = ("--beam", 1, "--max-length", 3)
    answers = dict(zip(few, translate(*short, *few), strict=True))
    many = [few[(7 * i) % len(few)] for i in range(4_000)]
    type_in(monkeypatch, "\n".join(many))
    assert translate(*short) == [answers[text] for text in many]


def test_empty_lines_stay_empty_and_nothing_is_nothing(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, f"\n{TEXTS[0]}\n \n\n")
    for options in ((), ("--scores",), ("--stream",), ("--sample",)):
        sys.stdin.seek(0)
        first, one, *rest = translate(*options)
        assert [first, *rest] == ["", " ", ""] and one
    type_in(monkeypatch, "")
    assert translate() == []
    assert translate("") == [""]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\t", "\0", "\x1b[2J"])
def test_only_a_newline_ends_a_line(
    translate: Run, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    texts = [f"a {mark} dog", f"{mark}", f"{mark}tea"]
    type_in(monkeypatch, "\n".join(texts))
    assert translate() == load_translator("run").translate(texts, split=True)


def test_an_argument_of_several_lines_is_as_many_lines(translate: Run) -> None:
    assert translate(f"{TEXTS[0]}\n\n{TEXTS[1]}\n", TEXTS[2]) == [
        *translate(TEXTS[0]),
        "",
        *translate(*TEXTS[1:3]),
    ]


def test_a_break_in_an_answer_does_not_make_a_line(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = [[Translation("one\ntwo\r", -1.0, -2.0, [5])]]
    monkeypatch.setattr("glassformer.pipeline.Translator.in_layout", lambda *_, **__: answer)
    assert translate("a dog") == ["one two "]


# Options


def test_long_texts_are_cut_into_sentences_unless_told_not_to(translate: Run) -> None:
    translator = load_translator("run")
    assert len(sentences(STORY)) == 3
    joined = " ".join(translator.translate(sentences(STORY)))
    whole = translator.translate(STORY, split=False)
    assert joined != whole
    assert translate(STORY) == translate("--split", STORY) == [joined]
    assert translate("--no-split", STORY) == [whole]


def test_n_best_lists_have_index_text_and_score(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [TEXTS[0], "", STORY]
    type_in(monkeypatch, "\n".join(texts))
    expected = [
        f"{index} ||| {one.text} ||| {one.score:.4f}"
        for index, answers in enumerate(n_best(texts, n_best=3))
        for one in answers
    ]
    assert [line[0] for line in expected] == list("0001222")
    assert translate("--n-best", 3) == expected


def test_scores_come_first_and_add_up(translate: Run) -> None:
    (one,) = n_best([TEXTS[1]])[0]
    assert translate("--scores", TEXTS[1]) == [f"{one.score:.4f}\t{one.text}"]
    parts = [found for (found,) in n_best(sentences(STORY))]
    total, text = sum(part.score for part in parts), restored(STORY, [part.text for part in parts])
    assert translate("--scores", STORY) == [f"{total:.4f}\t{text}"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--beam", 1], {"beam_size": 1}),
        (["--beam", 3, "--length-penalty", 2.0], {"beam_size": 3, "length_penalty": 2.0}),
        (["--min-length", 9, "--max-length", 12], {"min_length": 9, "max_length": 12}),
        (["--no-repeat-ngram", 2], {"no_repeat_ngram": 2}),
        (["--repetition-penalty", 1.5], {"repetition_penalty": 1.5}),
        (["--batch-tokens", 1], {}),
        (
            ["--sample", "--temperature", 2, "--top-k", 9, "--top-p", 0.9, "--seed", 3],
            {"sample": True, "temperature": 2.0, "top_k": 9, "top_p": 0.9, "seed": 3},
        ),
    ],
    ids=str,
)
def test_options_reach_the_search(
    translate: Run, arguments: list[object], options: dict[str, Any]
) -> None:
    expected = [found[0].text for found in n_best(TEXTS, **options)]
    assert translate(*arguments, *TEXTS) == expected


def test_a_prefix_is_honoured(translate: Run) -> None:
    msg = translate("--prefix", "un vieux chat", *TEXTS, STORY)
    assert all(text.startswith("un vieux chat") for text in msg)
    assert len(msg) == 5 and msg[4].count("un vieux chat") == 1  # not one a sentence


def test_what_is_drawn_depends_on_the_seed_and_the_place_only(
    translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = ("--sample", "--max-length", 6)
    texts = [STORY, *TEXTS] * 60
    flat = [part for text in texts for part in sentences(text)]
    found = iter(n_best(flat, sample=True, max_length=6))
    expected = [restored(t, [next(found)[0].text for _ in sentences(t)]) for t in texts]
    assert len(set(expected)) > 60  # the same text, but not the same draw
    type_in(monkeypatch, "\n".join(texts))
    assert translate(*short) == expected
    type_in(monkeypatch, "\n".join(texts))
    assert translate(*short, "--seed", 1) != expected
    assert translate(*short, "--stream", *texts[:7]) == expected[:7]


def test_a_stream_ends_in_the_greedy_answer(translate: Run) -> None:
    texts = [*TEXTS, "", STORY]
    assert translate("--stream", *texts) == translate("--beam", 1, *texts)
    assert translate("--stream", "--beam", 1, STORY) == translate("--stream", STORY)


def test_int8_is_the_model_quantised(translate: Run) -> None:
    in_int8 = load_translator("run", int8=True)
    assert translate("--int8", *TEXTS) == in_int8.translate(TEXTS)
    found = in_int8.n_best(TEXTS, in_int8.options())
    scored = [f"{best.score:.4f}\t{best.text}" for best, *_ in found]
    assert translate("--int8", "--scores", *TEXTS) == scored != translate("--scores", *TEXTS)


def test_several_models_are_an_ensemble(translate: Run) -> None:
    write_model("other", seed=1)
    both = load_translator(["run", "other"]).translate(TEXTS)
    assert translate("--model", "other", *TEXTS) == both != translate(*TEXTS)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--seed", 1], "--seed goes with --sample only"),
        (["--top-p", 0.5], "--top-p goes with --sample only"),
        (["--sample", "--beam", 5], "--beam does not go with --sample"),
        (
            ["--sample", "--length-penalty", 1],
            "--length-penalty goes with --n-best or --scores only",
        ),
        (["--split", "--n-best", 2], "--n-best does not go with --split"),
        (["--split", "--prefix", "un"], "--prefix does not go with --split"),
        (["--stream", "--n-best", 1], "--n-best does not go with --stream"),
        (["--stream", "--scores"], "--scores does not go with --stream"),
        (["--stream", "--beam", 5], "--beam does not go with --stream"),
        (["--stream", "--prefix", "un"], "--prefix does not go with --stream"),
        (["--stream", "--length-penalty", 2], "--length-penalty does not go with --stream"),
        (["--stream", "--batch-tokens", 64], "--batch-tokens does not go with --stream"),
        (["--length-penalty", 1000], "length_penalty = 1000.0 is not a valid search option"),
        (["--file", "texts"], "Texts are given, and --file texts as well"),
        (["--n-best", 9], "n_best = 9 is not a valid search option"),
        (["--sample", "--temperature", 0], "temperature = 0.0 is not a valid search option"),
        (["--max-length", 3, "--min-length", 5], "max_length = 3 is not a valid search option"),
        (["--beam", 0], "--beam"),
        (["--beams", 3], "--beams"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(
    command: Command, arguments: list[object], what: str
) -> None:
    code, out, msg = command("translate", "a dog", "--model", "run", *arguments)
    assert (code, out) == (2, "") and what in msg


# Bad input


def refused(command: Command, *arguments: object) -> tuple[int, list[str], str]:
    code, out, msg = command("translate", "--model", "run", "--threads", 1, *arguments)
    assert msg.startswith("error: ") and msg.count("why:") == msg.count("next:") == 1
    return code, out.split("\n")[:-1], msg


@pytest.mark.parametrize("options", [(), ("--stream", "--beam", 1)], ids=str)
def test_a_text_too_long_is_named_and_the_lines_before_it_are_answered(
    command: Command, translate: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...]
) -> None:
    good = TEXTS * 5
    type_in(monkeypatch, "\n".join([*good, "tea " * 10_000, *good]))
    short = (*options, "--max-length", 3)
    code, out, msg = refused(command, *short)
    assert code == 3 and out == translate(*short, *TEXTS) * 5
    assert "Line 21 of standard input: the sentence has" in msg and f"up to {LONGEST}" in msg
    assert "'tea tea" in msg and "--truncate" in msg and "--split" not in msg
    sys.stdin.seek(0)
    cut = translate(*short, "--truncate")
    assert len(cut) == 2 * len(good) + 1 and cut[: len(good)] == out


def test_where_sentences_were_not_cut_that_is_the_advice(command: Command) -> None:
    code, _, msg = refused(command, "--no-split", "a dog", "a. The " * 20)
    assert code == 3 and "Text 2: the text has" in msg and "--split" in msg
    for option in (("--n-best", 2), ("--prefix", "un")):  # which do not go with it
        code, _, msg = refused(command, *option, "a. The " * 20)
        assert code == 3 and "Make it shorter; or --truncate." in msg and "--split" not in msg
    code, _, msg = refused(command, f"a dog. {'The tea ' * 20}")
    assert code == 3 and "error: Sentence 2 of 2 has" in msg and "'The tea" in msg


def test_what_is_not_utf_8_is_named_and_the_lines_before_it_are_answered(
    command: Command, translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = b"a dog\n\nun th\xe9\nthe old cat\n"
    expected = [*translate("a dog"), ""]
    type_in(monkeypatch, raw)
    Path("latin").write_bytes(raw)
    for options, name in (((), "standard input"), (("--file", "latin"), "latin")):
        code, out, msg = refused(command, *options)
        assert code == 3 and out == expected
        assert f"Line 3 of {name} is not UTF-8, from its byte 6 on" in msg and "iconv" in msg
    code, out, msg = refused(command, "a dog", "", "un th\udce9")
    assert code == 3 and out == expected and "Text 3 is not UTF-8" in msg
    code, out, msg = refused(command, "un th\udce9")
    assert code == 3 and "The text is not UTF-8" in msg


def test_a_line_without_an_end_is_named_and_the_lines_before_it_are_answered(
    command: Command, translate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, expected = b"a dog\n" + b"a" * (20 << 20), translate("a dog")
    type_in(monkeypatch, raw)
    Path("plain").write_bytes(raw)
    Path("packed").write_bytes(gzip.compress(raw, 1))
    for options, name in (
        ((), "standard input"),
        (("--file", "plain"), "plain"),
        (("--file", "packed"), "packed"),
    ):
        code, out, msg = refused(command, *options)
        assert code == 3 and out == expected
        assert f"Line 2 of {name} has more than 1,048,576 bytes" in msg


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "No such file"), ("a folder", "Is a directory"), (gzip.compress(b"a")[:-9], "end")],
    ids=["absent", "folder", "half"],
)
def test_a_file_that_cannot_be_read_is_named(command: Command, content: Any, what: str) -> None:
    if content == "a folder":
        Path("texts").mkdir()
    elif content:
        Path("texts").write_bytes(content)
    code, _, msg = refused(command, "--file", "texts")
    assert code == 3 and "texts cannot be read" in msg and what in msg


def test_a_prefix_longer_than_an_answer_may_be_is_refused(command: Command) -> None:
    code, _, msg = refused(command, "--prefix", "un vieux chat", "--max-length", 2, *TEXTS)
    assert code == 2 and "Text 1: " in msg and "prefix" in msg and "max_length" in msg


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--beam", 5_000), "beam_size = 5000"),
        (("--beam", 100_000), "beam_size = 100000"),
        (("--sample", "--n-best", 5_000), "n_best = 5000"),
        (("--min-length", 10_000), "min_length = 10000"),
        (("--max-length", 10_000), "max_length = 10000"),
        (("--batch-tokens", 10**9), "batch_tokens = 1000000000"),
    ],
    ids=str,
)
def test_settings_beyond_their_limits_are_refused_before_a_model_is_loaded(
    glassformer: Command, options: tuple[object, ...], what: str
) -> None:
    code, out, msg = refused(glassformer, *options, "a dog")  # there is no model
    assert (code, out) == (2, []) and msg.startswith(f"error: {what} is not a valid ")


def test_a_search_that_takes_long_says_so_first(command: Command) -> None:
    ask = ("translate", "--model", "run", "--threads", 1, "--beam", 250, "--max-length", 20)
    code, _, msg = command(*ask, "--min-length", 20, TEXTS[0])
    assert code == 0 and msg.startswith("note: each answer takes at least 20 steps of 250 hyp")
    assert command(*ask, "--min-length", 19, TEXTS[0])[2] == ""


def test_a_prefix_with_a_line_break_is_refused(command: Command) -> None:
    code, _, msg = refused(command, "--prefix", "un\nchat", "a dog")
    assert code == 2 and "has a line break" in msg


def test_a_prefix_comes_back_as_it_was_given(translate: Run) -> None:
    for prefix in (" un", "un  chat", "ｕｎ"):
        assert all(answer.startswith(prefix) for answer in translate("--prefix", prefix, *TEXTS))


def test_a_prefix_that_no_subwords_spell_is_refused(command: Command) -> None:
    code, out, msg = refused(command, "--prefix", "un Ж chat", "a dog")
    assert (code, out) == (2, []) and "The prefix 'un Ж chat' cannot be spelt" in msg
    assert "No subword of the model has 'Ж'" in msg


def test_without_a_model_it_is_the_bundled_one_whatever_is_called_so_here(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = bundle(monkeypatch, tmp_path / "package", "en-fr", "sentiment")
    asked = ("translate", "--threads", 1, *TEXTS)
    expected = load_translator(root / "en-fr").translate(TEXTS)
    answer = (0, "".join(f"{text}\n" for text in expected), "")
    assert glassformer(*asked) == glassformer(*asked, "--model", "en-fr") == answer
    Path("en-fr").mkdir()
    assert glassformer(*asked) == answer
    assert "en-fr is not a checkpoint" in glassformer(*asked, "--model", "en-fr")[2]
    assert "sentiment holds a classifier" in glassformer(*asked, "--model", "sentiment")[2]


def test_without_any_model_it_says_how_to_get_one(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle(monkeypatch, tmp_path / "package")
    code, out, msg = glassformer("translate", "a dog")
    assert (code, out) == (4, "")
    assert "No model is named" in msg and "--model runs/demo" in msg
    assert "glassformer demo" in msg.partition("next:")[2].replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "what"), [("absent", "no model 'absent'"), (".", ". is not a checkpoint")]
)
def test_a_folder_that_is_no_model_is_named(glassformer: Command, name: str, what: str) -> None:
    code, out, msg = glassformer("translate", "a dog", "--model", name)
    assert (code, out) == (4, "") and what in msg


@pytest.mark.parametrize(("arguments", "threads"), [([], None), (["--threads", 2], 2)], ids=str)
def test_threads_are_passed_on(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[object], threads: int | None
) -> None:
    asked: list[object] = []

    def load(*_: object, **options: object) -> Translator:
        asked.append(options["threads"])
        return load_translator("run")

    monkeypatch.setattr("glassformer.pipeline.load_translator", load)
    assert command("translate", "a dog", "--model", "run", *arguments)[0] == 0
    assert asked == [threads]


@pytest.mark.parametrize(
    "kind", ["classifier", "language-model", "masked-language-model", "tagger"]
)
def test_a_model_of_another_kind_is_named(glassformer: Command, kind: str) -> None:
    write_model("run", kind)
    code, out, msg = glassformer("translate", "a dog", "--model", "run")
    assert (code, out) == (4, "") and f"run holds a {kind}" in msg


def test_a_translator_of_symbols_is_named(glassformer: Command) -> None:
    write_model("run", tokenizer=None)
    code, _, msg = glassformer("translate", "a dog", "--model", "run")
    assert code == 4 and "no subwords" in msg


def test_a_closed_standard_input_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, _, msg = refused(command)
    assert code == 2 and "standard input is closed" in msg


# In a process of its own


def process(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "glassformer", "translate", "--model", "run", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*command, "--threads", "1"], text=True, env=environment, **{**pipes, **options}
    )


def test_a_line_is_answered_before_the_next_is_written_and_in_utf_8(translate: Run) -> None:
    """To a slow writer, in a locale that has no words for it."""
    write_model("run", tokenizer=Tokenizer.train([*TEXTS, "œ"] * 5, 60))
    expected = translate("--prefix", "œ", *TEXTS[:2])
    assert all(answer.startswith("œ") for answer in expected)
    with process("--prefix", "œ", env={"PYTHONIOENCODING": "latin-1"}, encoding="utf-8") as running:
        assert running.stdin and running.stdout
        for text, answer in zip(TEXTS, expected, strict=False):
            running.stdin.write(f"{text}\n")
            running.stdin.flush()
            assert running.stdout.readline() == f"{answer}\n"
        assert running.communicate(timeout=60) == ("", "")
        assert running.returncode == 0


def test_a_reader_that_goes_away_ends_it_quietly(translate: Run) -> None:
    Path("texts").write_text("a dog\n" * 5_000)
    with process("--beam", "1", "--max-length", "2", "--file", "texts") as running:
        assert running.stdout and running.stderr
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(timeout=60) in (1, -signal.SIGPIPE)


def test_on_a_terminal_it_says_what_it_waits_for(translate: Run) -> None:
    (expected,) = translate(TEXTS[0])
    ours, theirs = pty.openpty()
    with process(stdin=theirs) as running:
        assert running.stdout and running.stderr
        assert "Ctrl-D ends" in running.stderr.readline()
        os.write(ours, f"{TEXTS[0]}\n".encode())
        assert running.stdout.readline() == f"{expected}\n"
        os.write(ours, b"\x04")
        assert running.wait(timeout=60) == 0
    os.close(ours)
    os.close(theirs)


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, glassformer.cli.app; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# Both directions


@pytest.fixture
def both(glassformer: Command) -> Run:
    """The lines of a translator of both directions, in plain typography."""
    checkpoint.write(two_way.two_way(), Path("run"))

    def msg(*arguments: object) -> list[str]:
        code, out, err = glassformer("translate", "--model", "run", "--threads", 1, *arguments)
        assert (code, err) == (0, "")
        return out.split("\n")[:-1]

    return msg


@pytest.mark.parametrize("way", [(), ("--stream",), ("--no-split",)], ids=str)
def test_python_and_the_command_line_give_the_same_answer(
    both: Run, way: tuple[object, ...]
) -> None:
    texts = [*two_way.ENGLISH, *two_way.FRENCH, "- A dog!  Le chat.", "12.50", ""]
    translator = load_translator("run")
    asked: dict[str, Any] = {"beam_size": 1, "max_length": 12, "split": "--no-split" not in way}
    short = (*way, "--beam", 1, "--max-length", 12, "--", *texts)
    assert both(*short) == translator.translate(texts, **asked)
    for to in ("fr", "en"):
        assert both("--to", to, *short) == translator.translate(texts, to=to, **asked)
        plain = translator.translate(texts, to=to, typeset=False, **asked)
        assert both("--to", to, "--no-typeset", *short) == plain


def test_n_best_lists_and_scores_have_a_direction(both: Run) -> None:
    translator = load_translator("run")
    options = translator.options(n_best=2, max_length=8)
    (found,) = translator.n_best(["a dog"], options, to="en")
    expected = [f"0 ||| {one.text} ||| {one.score:.4f}" for one in found]
    assert both("--to", "en", "--n-best", 2, "--max-length", 8, "a dog") == expected
    (best,) = both("--to", "en", "--scores", "--max-length", 8, "a dog")
    assert best == f"{found[0].score:.4f}\t{found[0].text}"


def test_a_language_that_the_model_does_not_write_is_refused(command: Command) -> None:
    code, out, msg = refused(command, "--to", "en", "a dog")
    assert (code, out) == (2, []) and "does not translate into 'en'" in msg
    assert "en to fr" in msg
