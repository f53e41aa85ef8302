"""
Self-documenting settings.

A program declares its settings as a frozen model; flags, environment variables, the keys of a configuration
file, the help and the list of values with their origins all follow from it. A program either starts with
valid settings, or stops with every mistake at once: fixing them may take a deployment each time, and must not
take five.

    BadInput
    └── SettingsError    settings that cannot be used; each mistake says where it was written
"""

import json
import math
import sys
import textwrap
import types
import typing
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NoReturn, TextIO, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from numalign.model.errors import BadInput, Mistake
from numalign.runtime import about, sources
from numalign.runtime.sources import RawValue, Reading

DEFAULT = "default"

EVERYWHERE = "*"
BIND = "bind"
METRICS_PORT = "metrics_port"  # The name of the port for health and metrics.


class SettingsError(BadInput):
    """Raised when settings cannot be used; every mistake names its flag, variable or line."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Settings that are valid by themselves but not together; checked only if each of them is valid."""

    names: tuple[str, ...]
    message: str


class Settings(BaseModel):
    """The settings of a program. Every field has a default and a description; mix-ins add up.

    A description has the meaning, the unit, how to switch it off, and the reason for the default. A required
    setting defaults to None, and `contradictions` reports it; pydantic's own model validators are not used,
    because they do not know where a value was written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The old names of settings, and their current names: an error for an old name shows the new one."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 pydantic's signature
        """Raise `TypeError` for a setting without a default or a description."""
        super().__pydantic_init_subclass__(**kwargs)
        for name, info in cls.model_fields.items():
            if info.is_required() or not info.description:
                raise TypeError(f"setting {cls.__name__}.{name} needs a default and a description")
            if name in (sources.CONFIG, *sources.QUESTIONS):
                raise TypeError(f"{cls.__name__}.{name}: every program has {sources.flag(name)}")

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield contradictions between settings; a mix-in also yields those of `super()`."""
        yield from ()


T = TypeVar("T", bound=Settings)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """Settings, and the origin of each value (`default` if it was not set)."""

    settings: T
    origins: Mapping[str, str]

    def __str__(self) -> str:
        """Return every value with its origin, in lines that `--config` can read."""
        values = {name: f"{name}: {_yaml(getattr(self.settings, name))}" for name in self.origins}
        width = max(map(len, values.values()), default=0)
        return "\n".join(f"{values[name]:<{width}}  # {origin}" for name, origin in self.origins.items())


def from_command_line(model: type[T], *, prog: str, argv: Sequence[str], environ: Mapping[str, str]) -> T:
    """Return the settings of a program that starts, or exit: with 0 after `--help` and its like, or 2."""
    questions = _flags(model, argv).questions
    if "help" in questions:
        _leave(sys.stdout, usage(model, prog=prog), code=0)
    if "version" in questions:
        _leave(sys.stdout, f"{prog} {about.version()}", code=0)
    try:
        loaded = load(model, argv=argv, environ=environ)
    except SettingsError as error:
        counted = "1 mistake" if len(error.mistakes) == 1 else f"{len(error.mistakes)} mistakes"
        listed = textwrap.indent(str(error), "  ")
        text = f"{prog}: {counted} in the settings\n{listed}\n{prog} --help lists every setting"
        _leave(sys.stderr, text, code=2)
    if "print_config" in questions:
        _leave(sys.stdout, str(loaded), code=0)
    return loaded.settings


def _leave(stream: TextIO, text: str, *, code: int) -> NoReturn:
    stream.write(text + "\n")
    raise SystemExit(code)


def load(model: type[T], *, argv: Sequence[str], environ: Mapping[str, str]) -> Loaded[T]:
    """Return each value of the first source that has it; raise `SettingsError` with all mistakes."""
    in_environment = sources.environment(environ, names=model.model_fields, renamed=model.renamed)
    readings = [_flags(model, argv), in_environment]
    paths = [reading.values[sources.CONFIG] for reading in readings if sources.CONFIG in reading.values]
    if paths and not paths[0].text:
        readings.append(Reading(mistakes=(Mistake(paths[0].origin, "needs a path"),)))
    elif paths:
        readings.append(sources.file(Path(paths[0].text), names=model.model_fields, renamed=model.renamed))
    # A value that another source overrides is not checked.
    values = dict(ChainMap(*(dict(reading.values) for reading in readings)))
    values.pop(sources.CONFIG, None)
    settings, bad = _validated(model, values)
    mistakes = [mistake for reading in readings for mistake in reading.mistakes]
    mistakes += bad.values()
    for clash in settings.contradictions():
        if bad.keys().isdisjoint(clash.names):
            places = [values[name].origin for name in clash.names if name in values]
            where = places or [sources.flag(name) for name in clash.names]
            mistakes.append(Mistake(", ".join(where), clash.message))
    if mistakes:
        raise SettingsError(mistakes)
    origins = {name: values[name].origin if name in values else DEFAULT for name in model.model_fields}
    return Loaded(settings, origins)


def _flags(model: type[Settings], argv: Sequence[str]) -> Reading:
    fields = model.model_fields
    return sources.flags(
        argv,
        names=fields,
        switches={n for n, info in fields.items() if _bare(info) is bool},
        renamed=model.renamed,
    )


def _validated(model: type[T], values: Mapping[str, RawValue]) -> tuple[T, dict[str, Mistake]]:
    """Return the settings, with defaults in place of invalid values, and the mistakes by name."""
    bad = {
        name: Mistake(value.origin, f"needs a value: {_expected(model.model_fields[name])}")
        for name, value in values.items()
        if not value.text
    }

    def good() -> T:
        return model.model_validate({name: v.text for name, v in values.items() if name not in bad})

    try:
        return good(), bad
    except ValidationError as error:
        for detail in error.errors():
            name, text = str(detail["loc"][0]), str(detail["input"])
            info = model.model_fields[name]
            hint = sources.did_you_mean(text, _choices(info))
            why = f"expected {_expected(info)}{hint}"
            if detail["type"] == "value_error":
                why = str(detail["ctx"]["error"])
            bad[name] = Mistake(values[name].origin, f'"{text}" is invalid: {why}')
    return good(), bad


@dataclass(frozen=True, slots=True)
class SettingHelp:
    """What the help says about one setting."""

    flag: str
    placeholder: str
    variable: str
    expected: str
    default: str
    """As one YAML scalar."""
    description: str


def explained(model: type[Settings]) -> dict[type, list[SettingHelp]]:
    """Return the help on every setting, by the class that declares it."""
    groups: dict[type, list[SettingHelp]] = {}
    for name, info in model.model_fields.items():
        owner = next(c for c in reversed(model.__mro__) if name in getattr(c, "__annotations__", ()))
        setting = SettingHelp(
            flag=sources.flag(name),
            placeholder="CHOICE" if _choices(info) else _KINDS.get(_bare(info), _TEXT)[0],
            variable=sources.variable(name),
            expected=_expected(info),
            default=_yaml(info.default),
            description=str(info.description),
        )
        groups.setdefault(owner, []).append(setting)
    return groups


EVERY_PROGRAM = MappingProxyType(
    {
        "--config PATH": "a YAML file of settings (NUMALIGN_CONFIG)",
        "--print-config": "print every setting and where its value comes from, then exit",
        "--help": "print this help, then exit",
        "--version": "print the version, then exit",
    }
)
ORDER = "Flags take precedence over environment variables, and those over the file of settings."


def usage(model: type[Settings], *, prog: str) -> str:
    """Return the text of `--help`: every setting with its values and its meaning, by declaring class."""

    def entry(head: str, text: str) -> str:
        return f"  {head}\n" + textwrap.fill(text, 88, initial_indent=" " * 8, subsequent_indent=" " * 8)

    lines = [f"usage: {prog} [--setting VALUE ...]", ""]
    for group, settings in explained(model).items():
        lines.append(summary(group))
        for one in settings:
            facts = f"{one.expected}; default {one.default}; {one.variable}"
            lines.append(entry(f"{one.flag} {one.placeholder}".rstrip(), f"{one.description} ({facts})"))
        lines.append("")
    lines += ["Every program", *(entry(head, text) for head, text in EVERY_PROGRAM.items()), "", ORDER]
    return "\n".join(lines)


def summary(group: type) -> str:
    """Return the summary of a class of settings: the first line of its docstring."""
    return (group.__doc__ or "").strip().partition("\n")[0]


def _bare(info: FieldInfo) -> Any:  # noqa: ANN401 an annotation is a type, a union, or a literal
    """Return the annotation without `| None`."""
    if typing.get_origin(info.annotation) in (types.UnionType, typing.Union):
        parts = typing.get_args(info.annotation)
        return next(part for part in parts if part is not types.NoneType)
    return info.annotation


def _choices(info: FieldInfo) -> tuple[str, ...]:
    kind = _bare(info)
    if typing.get_origin(kind) is Literal:
        return tuple(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(member.value) for member in kind)
    return ()


def _expected(info: FieldInfo) -> str:
    """Return a description of valid values: `a whole number, at least 0 and at most 65535`."""
    if choices := _choices(info):
        return f"one of {', '.join(choices)}"
    limits = [
        f"{words} {getattr(constraint, name)}"
        for constraint in info.metadata
        for name, words in _LIMITS.items()
        if hasattr(constraint, name)
    ]
    _, kind = _KINDS.get(_bare(info), _TEXT)
    return f"{kind}, {' and '.join(limits)}" if limits else kind


def _yaml(value: object) -> str:
    """Return a value as one YAML scalar that reads back as itself."""
    if value is None:
        return "null"
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(plain, bool | int | float):
        return json.dumps(plain)
    return yaml.safe_dump(str(plain), width=math.inf, allow_unicode=True).partition("\n")[0]


_LIMITS = MappingProxyType({"ge": "at least", "gt": "above", "le": "at most", "lt": "below"})
"""The names of constraints in pydantic, and in words."""

_TEXT = ("TEXT", "text")
_KINDS: Mapping[object, tuple[str, str]] = MappingProxyType(
    {
        bool: ("", "true or false"),
        int: ("NUMBER", "a whole number"),
        float: ("NUMBER", "a number"),
        Path: ("PATH", "a path"),
        str: _TEXT,
    }
)
"""The names of kinds of values: after a flag in the help, and in a sentence."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on, and the names of its settings, or ""; port 0 takes any free one."""

    bind: str
    port: int
    bind_name: str = BIND
    port_name: str = METRICS_PORT

    def __str__(self) -> str:
        """Return the flags for this address."""
        bind = f"{sources.flag(self.bind_name)} {self.bind} " if self.bind_name else ""
        return f"{bind}{sources.flag(self.port_name)} {self.port}"


class ProcessSettings(Settings):
    """Listening and logging."""

    bind: str = Field(
        default=EVERYWHERE,
        description="Address to listen on, or * for all IPv4 and IPv6 addresses. The default is all, because"
        " callers (API servers, schedulers, Prometheus) run on other machines. Use 127.0.0.1 for local"
        " tests.",
    )
    metrics_port: int = Field(
        default=8080,
        ge=0,
        le=65535,
        description="Port for health, readiness and metrics (/healthz, /readyz, /metrics), in plain HTTP."
        " With 0, any free port is used; the log event server.listening shows which one. It is separate from"
        " the port for calls, so that a network policy can admit Prometheus to metrics only.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level of log lines. info includes every notable decision."
    )
    log_format: Literal["json", "text"] = Field(
        default="json",
        description="Format of log lines: json writes one JSON object per line,"
        " text is meant for a terminal.",
    )

    @property
    def metrics_address(self) -> ListenAddress:
        """Where the process serves its health and metrics."""
        return ListenAddress(self.bind, self.metrics_port)
