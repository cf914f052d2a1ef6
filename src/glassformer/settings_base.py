"""The base of all settings: frozen, exact errors, TOML in and out."""

import tomllib
from typing import Any, Self, get_args

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from glassformer.aliases import suggestion
from glassformer.errors import SettingsError, UnknownVariantError, near_name
from glassformer.registry import VARIABLE, registered

SHOWN = 200  # characters of a wrong value

# Old names of settings, which checkpoints and recipes of earlier versions have.
RENAMED = {"hidden": "mask_rate", "agreement": "r_drop", "ngram_places": "ngram_buckets"}


class Settings(BaseModel):
    """Frozen settings that refuse unknown names and survive a round trip through TOML."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, values: Any) -> Any:
        return _renamed(values) if isinstance(values, dict) else values

    @classmethod
    def of(cls, /, **values: Any) -> Self:
        """Make settings from plain values; raise one error that names every bad value."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            errors = [dict(e) for e in error.errors(include_url=False)]
            problems = [_problem(cls, one) for one in errors]
            is_variant = all(one["type"] == "variant" for one in errors)
            raise (UnknownVariantError if is_variant else SettingsError)(
                "; ".join(what for what, _, _ in problems),
                "; ".join(dict.fromkeys(why for _, why, _ in problems)),
                "; ".join(dict.fromkeys(remedy for _, _, remedy in problems)),
            ) from None

    def replace(self, /, **changes: Any) -> Self:
        """Return a copy with changes; a dict changes only the named settings of its section."""
        return type(self).of(**merged(self.model_dump(), changes))

    @classmethod
    def from_toml(cls, text: str | bytes) -> Self:
        """Read settings from TOML; bytes are UTF-8."""
        try:
            values = tomllib.loads(text if isinstance(text, str) else text.decode())
        except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
            raise SettingsError(
                f"The settings are not TOML: {error}.",
                "Settings are lines of `name = value`, strings in quotes.",
                "Correct that line.",
            ) from None
        except RecursionError:
            raise SettingsError(
                "The settings are nested too deeply.",
                "A setting is a value, or a list of values, in a section.",
                "Write the settings as `glassformer recipes multi30k` prints them.",
            ) from None
        return cls.of(**values)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Replace old names; an old name beside its new one stays, and is refused as unknown."""
    new = {old: RENAMED.get(old, old) for old in values}
    return {old if new[old] in values else new[old]: value for old, value in values.items()}


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge `changes` into `values`, section by section at any depth."""
    both = {
        name: merged(values[name], value)
        if isinstance(value, dict) and isinstance(values.get(name), dict)
        else value
        for name, value in _renamed(changes).items()
    }
    return {**values, **both}


def _problem(cls: type[BaseModel], error: dict[str, Any]) -> tuple[str, str, str]:
    path = [str(part) for part in error["loc"] or [error["input"]]]  # a name that is not Unicode
    name = ".".join(path)
    if error["type"] == "extra_forbidden" or not error["loc"]:
        plain = ".".join(part[:SHOWN] for part in path if not part.isdecimal())  # no list index
        place = plain.rpartition(".")[0]
        meant = suggestion(plain, names_of(cls))
        if place:  # the same place in the list
            meant = meant.replace(f"'{place}.", f"'{'.'.join(path[:-1])}.")
        return (
            f"Unknown setting {shown(name)}",
            "an ignored typo would leave its default in place without notice",
            meant,
        )
    remedy = f"set {name} to a valid value"
    if error["type"] == "variant":
        near = near_name(str(error["input"])[:SHOWN], error["msg"].split("'")[1::2])
        kind = error["ctx"]["kind"]
        own = f'{remedy}; register a variant of your own first: gf.register("{kind}", ...)'
        where = f"on the command line, in a module that {VARIABLE} names"
        remedy = f"did you mean {near!r}? Or {own}, {where}" if near else f"{own}, {where}"
    return (
        f"{name} = {shown(error['input'])}",
        error["msg"][0].lower() + error["msg"][1:],
        remedy,
    )


def names_of(cls: type[BaseModel], section: str = "") -> list[str]:
    """Return the names of all settings of a class, with their sections."""
    names = []
    for name, field in cls.model_fields.items():
        inner = field.annotation
        inner = next(iter(get_args(inner)), inner)  # the item type of a list of tables
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            names += names_of(inner, f"{section}{name}.")
        else:
            names.append(f"{section}{name}")
    return names


def shown(value: Any) -> str:
    """Return a value as an error shows it: its start, where it is long or deep."""
    if isinstance(value, int) and value.bit_length() > 256:  # Python prints 4,300 digits at most
        return f"a number of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except RecursionError:
        return "tables in tables"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def or_registered(kind: str) -> WrapValidator:
    """Accept names of `glassformer.register` beside the built-in ones."""

    def check(value: Any, built_in: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, str) and value in registered(kind):
            return value
        try:
            return built_in(value)
        except ValidationError as error:
            message = f"{error.errors()[0]['msg']}, or a registered name"
            context = {"message": message, "kind": kind}
            raise PydanticCustomError("variant", "{message}", context) from None

    return WrapValidator(check)
