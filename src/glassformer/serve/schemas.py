"""The bodies of requests and answers. The OpenAPI document is made from them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from glassformer.decode.options import MIN_TEMPERATURE
from glassformer.serve.limits import Limits

LIMITS = Limits()
MAX_SEED = 2**64 - 1
Text = Annotated[str, Field(max_length=LIMITS.characters)]
Texts = Annotated[list[Text], Field(max_length=LIMITS.texts)]
Name = Annotated[str, Field(max_length=200)]


class Body(BaseModel):
    """A body; fields that are not declared are refused, as they would have no effect."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Lenient(Body):
    """A body of LibreTranslate, whose clients send fields of later versions."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class Error(BaseModel):
    """An error: what happened, why, and what to do next."""

    error: str
    why: str
    next: str


class OpenAIErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str
    why: str
    next: str


class OpenAIError(BaseModel):
    """An error as OpenAI's clients read it."""

    error: OpenAIErrorDetail


# LibreTranslate's


class TranslateRequest(Lenient):
    """Texts to translate."""

    q: Text | Texts = Field(description="A text, or a list of texts.")
    source: Name = Field("auto", description="Code of the source language, or auto.")
    target: Name = Field(description="Code of the target language.")
    format: Literal["text", "html"] = Field("text", description="html: tags are kept.")
    alternatives: int = Field(
        0, ge=0, le=LIMITS.alternatives, description="Further translations of a text."
    )
    stream: bool = Field(
        False,
        description="An event for each sentence, {index, text}, then the whole answer; ours.",
    )
    api_key: str | None = Field(None, description="The token of the server, if it has one.")
    model: Name | None = Field(None, description="One of several translators; ours.")


class Detected(BaseModel):
    language: str
    confidence: float = Field(description="Share of the signs for this language, 0 to 100.")


class TranslateResponse(BaseModel):
    """Translations; lists for a list of texts."""

    translatedText: str | list[str]  # noqa: N815 - the API's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class DetectRequest(Lenient):
    q: Text = Field(description="A text.")
    api_key: str | None = None


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    status: Literal["ok"]
    models: list[str]
    waiting: int = Field(description="Texts in the queue.")


# OpenAI's


class Sampling(Body):
    """Options that completions and chats share."""

    model: Name
    max_tokens: int | None = Field(None, ge=1, le=LIMITS.new_tokens)
    temperature: float = Field(
        1.0, ge=0, le=2, description=f"0 takes the likeliest token; else at least {MIN_TEMPERATURE}"
    )
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0, description="Draw from the k likeliest tokens; 0: from all. Ours.")
    n: int = Field(1, ge=1, le=LIMITS.choices)
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: "StreamOptions | None" = None
    user: str | None = Field(None, description="Has no effect.")
    frequency_penalty: float = Field(0, ge=0, le=0, description="There is no such penalty.")
    presence_penalty: float = Field(0, ge=0, le=0, description="There is no such penalty.")


class StreamOptions(Body):
    include_usage: bool = False


class CompletionRequest(Sampling):
    """Prompts to continue."""

    prompt: Text | Texts = ""
    echo: bool = Field(False, description="Begin each answer with its prompt.")


class TextPart(Body):
    type: Literal["text"]
    text: Text


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(max_length=LIMITS.texts)]


class ChatRequest(Sampling):
    """A conversation to continue."""

    messages: list[Message] = Field(min_length=1, max_length=LIMITS.texts)
    max_completion_tokens: int | None = Field(None, ge=1, le=LIMITS.new_tokens)


class Choice(BaseModel):
    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    logprobs: None = None


class ChatMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    index: int
    message: ChatMessage
    finish_reason: Literal["stop", "length"] | None


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class Chat(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage | None = None


class EmbeddingRequest(Body):
    """Texts to turn into vectors."""

    model: Name
    input: Text | Texts
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: the little-endian float32 numbers of each vector."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Numbers of a vector; only the model's own width is possible."
    )
    user: str | None = Field(None, description="Has no effect.")
    truncate: bool = Field(
        False, description="Cut texts that are too long instead of refusing. Ours."
    )


class Embedding(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """A vector for each text, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "glassformer"
    kind: str
    directions: list[tuple[str, str]] = Field(description="Of a translator: source and target.")
    labels: list[str] = Field(description="Of a classifier.")
    chat: bool = Field(description="It has a template for messages.")
    int8: bool = Field(description="Stored in eight bits, so that rounding changes nothing.")


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


# Ours


class ClassifyRequest(Body):
    """Texts to label."""

    q: Text | Texts
    model: Name | None = None
    truncate: bool = Field(False, description="Cut texts that are too long instead of refusing.")


class Classified(BaseModel):
    label: str
    probability: float
    probabilities: dict[str, float]


class ClassifyResponse(BaseModel):
    """A label for each text; a list for a list."""

    result: Classified | list[Classified]


HeadName = tuple[Literal["encoder", "decoder", "cross"], int, int]


class TraceRequest(Body):
    """A text to look at in a model."""

    model: Name
    text: Annotated[str, Field(max_length=20_000)]
    to: Name | None = Field(None, description="Target language of a translator.")
    target: Text | None = Field(None, description="Force this output; nothing is searched for.")
    prefix: Annotated[list[int], Field(max_length=512)] = Field(
        default=[], description="Ids of tokens that the output begins with."
    )
    beam_size: int = Field(5, ge=1, le=16)
    max_length: int | None = Field(None, ge=1, le=512)
    heads_off: Annotated[list[HeadName], Field(max_length=1_024)] = Field(
        default=[], description="Heads whose output is zero: kind, layer and head from 0."
    )
    int8: bool = Field(False, description="Round the weights to eight bits first.")
    reference: Text | None = Field(None, description="A right translation, for BLEU.")
    truncate: bool = False


class LookRequest(Body):
    """A closer look at one place of a trace."""

    model: Name
    text: Annotated[str, Field(max_length=20_000)]
    to: Name | None = Field(None, description="Target language of a translator.")
    output: Annotated[list[int], Field(max_length=4_096)] = Field(
        default=[], description="Ids of the output, as the trace has them in `target`."
    )
    heads_off: Annotated[list[HeadName], Field(max_length=1_024)] = Field(
        default=[], description="Heads whose output is zero: kind, layer and head from 0."
    )
    int8: bool = Field(False, description="Round the weights to eight bits first.")
    truncate: bool = False


class StepRequest(LookRequest):
    """One step of one head."""

    head: HeadName
    row: int = Field(0, ge=0, description="Row of its attention, from 0.")


class CodeLines(BaseModel):
    """A function of Glassformer's source."""

    path: str
    name: str
    first: int = Field(description="Line number in the file.")
    text: str
    marked: list[int] = Field(description="Numbers of the lines that compute the stage.")


class StageResponse(BaseModel):
    name: str
    equation: str
    text: str
    rows: dict[str, list[float]]
    columns: str = Field(description="What a column is: a feature, a token, an output token.")
    code: list[CodeLines]


class StepResponse(BaseModel):
    """The stages of a step, from the embedding to the logits."""

    head: HeadName
    row: int
    stages: list[StageResponse]
    likely: list[str] = Field(description="The tokens of the columns of the logits.")


class WhyRequest(LookRequest):
    """Why a token was written, or why it and not another one."""

    step: int = Field(ge=0, description="Step of the output, from 0.")
    against: int | None = Field(None, ge=0, description="Id of the other token.")


class WhyResponse(BaseModel):
    """Influences on one step; a positive one favours the token that was written."""

    value: float = Field(description="The log-odds, or the difference of log-probabilities.")
    gradient: dict[str, list[float]] = Field(description="Of each token: source and target.")
    left_out: dict[str, list[float]] = Field(description="Of each word: the fall without it.")
    words: dict[str, list[str]] = Field(description="The words that were left out.")


class PartsOfLabels(BaseModel):
    """Parts of each label's logit above the others' mean, in the order of the labels."""

    encoder: list[float]
    ngrams: list[float]
    each: list[tuple[str, list[float]]] = Field(description="Of each distinct n-gram.")


class TraceResponse(BaseModel):
    """A trace in the format of docs/trace.md, and what was computed from it."""

    trace: dict[str, Any]
    read: dict[str, Any] | None = Field(description="The decoder's input tokens.")
    rollout: dict[str, Any]
    heads: dict[str, Any] = Field(description="Mean entropy and distance of each head.")
    summary: dict[str, str]
    aligned: list[int] | None = Field(description="Layer and head that aligns best.")
    log_probability: float | None
    bleu: float | None = Field(description="Of the output against the reference.")
    lens: list[list[tuple[str, float, float]]] = Field(
        description="Of each layer, the embedding first, and each step: the token that it would "
        "predict, its probability, and that of the token that is written."
    )
    prompt: int = Field(description="Tokens of a language model's prompt.")
    parts: PartsOfLabels | None = Field(
        description="Of a classifier with n-grams: the encoder's part of each label, and theirs."
    )
    marks: list[int] = Field(description="Ids that no output can be forced to go on from.")
    caution: str


class Run(BaseModel):
    """A training run: each curve is steps and values."""

    name: str
    step: int
    seconds_ago: float = Field(description="Since its log was last written to.")
    curves: dict[str, list[tuple[int, float]]]


class RunList(BaseModel):
    """Training runs, the one that was written to last first."""

    runs: list[Run]


class Finding(BaseModel):
    """The verdict of an experiment of the lab."""

    name: str
    title: str
    claim: str
    outcome: str
    because: str
    quick: bool = Field(description="Toy sizes, which judge nothing.")
    command: str


class FindingList(BaseModel):
    findings: list[Finding]


class ReportResponse(BaseModel):
    """The report of `glassformer inspect`: one HTML page that needs nothing else."""

    html: str
