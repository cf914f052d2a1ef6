"""LibreTranslate's endpoints: what clients of self-hosted translators speak."""

from collections.abc import AsyncIterator

from glassformer.data.direction import GUESSED, guess_language, language_shares
from glassformer.pipeline import Translator
from glassformer.serve import schemas as s
from glassformer.serve.endpoint import DONE, Endpoint, event_of
from glassformer.serve.models import Served
from glassformer.serve.refusals import RequestError
from glassformer.serve.server import Server
from glassformer.serve.translation import Translated, stream, translate, translate_html

BEAM = 5  # as `glassformer translate` has it
NAMES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish",
    "fr": "French", "it": "Italian", "ja": "Japanese", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "zh": "Chinese",
}  # fmt: skip


async def answer_translate(
    server: Server, body: s.TranslateRequest
) -> s.TranslateResponse | AsyncIterator[str]:
    texts = [body.q] if isinstance(body.q, str) else body.q
    limit_characters(texts, server.limits.characters)
    detected = detect_all(server, texts) if body.source == "auto" else None
    sources = [one.language for one in detected] if detected else [body.source] * len(texts)
    if body.stream:
        return _streamed(body, _pieces(server, body, texts, sources), detected)
    found: list[Translated] = [Translated("")] * len(texts)
    for source in dict.fromkeys(sources):
        if source == body.target:  # auto: it is in that language already
            chosen = [i for i, one in enumerate(sources) if one == source]
            for i in chosen:
                found[i] = Translated(texts[i])
            continue
        served, translator = server.models.translator(source, body.target, body.model)
        chosen = [i for i, one in enumerate(sources) if one == source]
        answers = await _translated(server, served, translator, [texts[i] for i in chosen], body)
        for i, answer in zip(chosen, answers, strict=True):
            found[i] = answer
    return _answer(body, found, detected)


def _pieces(
    server: Server, body: s.TranslateRequest, texts: list[str], sources: list[str]
) -> list[AsyncIterator[str]]:
    """Return the translation of each text by sentences; refuse what comes as a whole only."""
    whole = "format" if body.format != "text" else "alternatives" if body.alternatives else None
    if whole is not None:
        raise RequestError(
            422,
            f"A translation with {whole} = {getattr(body, whole)!r} cannot be streamed.",
            "Tags and alternatives are known when the whole text is translated.",
            f"Leave {whole} out, or stream.",
        )
    found = []
    for text, source in zip(texts, sources, strict=True):
        if source == body.target:
            found.append(_as_it_is(text))
            continue
        served, translator = server.models.translator(source, body.target, body.model)
        options = translator.options(beam_size=BEAM)
        found.append(stream(server.batcher, served, text, body.target, options))
    return found


async def _as_it_is(text: str) -> AsyncIterator[str]:
    yield text


async def _streamed(
    body: s.TranslateRequest, pieces: list[AsyncIterator[str]], detected: list[s.Detected] | None
) -> AsyncIterator[str]:
    """Yield the event of each sentence, then the answer as a request without `stream` has it."""
    whole = [""] * len(pieces)
    for index, of_text in enumerate(pieces):
        async for piece in of_text:
            whole[index] += piece
            yield event_of({"index": index, "text": piece})
    yield event_of(_answer(body, [Translated(text) for text in whole], detected))
    yield DONE


async def _translated(
    server: Server,
    served: Served,
    translator: Translator,
    texts: list[str],
    body: s.TranslateRequest,
) -> list[Translated]:
    n_best = body.alternatives + 1
    options = translator.options(beam_size=max(BEAM, n_best), n_best=n_best)
    work = translate if body.format == "text" else translate_html
    return await work(server.batcher, served, texts, body.target, options)


def _answer(
    body: s.TranslateRequest, found: list[Translated], detected: list[s.Detected] | None
) -> s.TranslateResponse:
    """Return lists for a list, and single values for a text."""
    texts, others = [one.text for one in found], [list(one.alternatives) for one in found]
    many = isinstance(body.q, list)
    return s.TranslateResponse(
        translatedText=texts if many else texts[0],
        alternatives=None if not body.alternatives else others if many else others[0],
        detectedLanguage=None if detected is None else detected if many else detected[0],
    )


def limit_characters(texts: list[str], most: int) -> None:
    count = sum(map(len, texts))
    if count > most:
        raise RequestError(
            413,
            f"The texts have {count:,} characters.",
            f"A request may have {most:,}, so that it does not keep others waiting.",
            "Send them in several requests.",
        )


def detect_all(server: Server, texts: list[str]) -> list[s.Detected]:
    """Guess the language of each text; refuse where other languages are served."""
    if not server.models.can_detect():
        languages = ", ".join(server.models.languages()) or "none"
        raise RequestError(
            422,
            "The source language cannot be detected.",
            f"English and French can be told apart; the translators read: {languages}.",
            "Name the source language: GET /languages lists them.",
        )
    return [
        s.Detected(language=language, confidence=100 * language_shares(text)[language])
        for text in texts
        for language in [guess_language(text)]
    ]


async def answer_detect(server: Server, body: s.DetectRequest) -> list[s.Detected]:
    """Return the languages of a text, the likeliest first."""
    limit_characters([body.q], server.limits.characters)
    first = detect_all(server, [body.q])[0]
    shares = language_shares(body.q)
    others = [one for one in sorted(GUESSED) if one != first.language and shares[one] > 0]
    rest = [s.Detected(language=one, confidence=100 * shares[one]) for one in others]
    return [first, *rest]


async def answer_languages(server: Server, _: None) -> list[s.Language]:
    return [
        s.Language(code=code, name=NAMES.get(code, code), targets=targets)
        for code, targets in server.models.languages().items()
    ]


async def answer_health(server: Server, _: None) -> s.Health:
    names = list(server.models.by_name)
    return s.Health(status="ok", models=names, waiting=server.batcher.waiting)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/translate",
        answer_translate,
        s.TranslateResponse,
        "Translate a text, a list of texts, or HTML.",
        "libretranslate",
        s.TranslateRequest,
        form=True,
        streams=True,
    ),
    Endpoint(
        "POST",
        "/detect",
        answer_detect,
        list[s.Detected],
        "Detect the language of a text.",
        "libretranslate",
        s.DetectRequest,
        form=True,
    ),
    Endpoint(
        "GET",
        "/languages",
        answer_languages,
        list[s.Language],
        "List the source languages, each with its targets.",
        "libretranslate",
        public=True,
    ),
    Endpoint(
        "GET",
        "/health",
        answer_health,
        s.Health,
        "Report that the server answers.",
        "libretranslate",
        public=True,
    ),
)
