"""
The sources of settings: flags, environment variables, and a file.

All three are read as text, so that `8443` means the same in each and YAML's own types (`on`, `0755`, `1e3`)
do not matter. Reading reports only what is unknown or unreadable; `settings` validates the values. Nothing
here raises: mistakes are returned with the values, because users need those of all three sources at once.
"""

import argparse
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from numalign.model.errors import Mistake
from numalign.model.spelling import closest_word
from numalign.runtime import yaml_events
from numalign.runtime.yaml_events import NestedTooDeep, why_not_yaml

PREFIX = "NUMALIGN_"

# Options of the program itself; no setting may have these names.
CONFIG = "config"
QUESTIONS = ("help", "version", "print_config")

_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class RawValue:
    """The text of a setting, and its origin in words."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of one source: settings by name, mistakes, and the options of the program itself."""

    values: Mapping[str, RawValue] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    questions: frozenset[str] = frozenset()


def flag(name: str) -> str:
    """Return the flag of the setting `tls_cert`: `--tls-cert`."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of the setting `tls_cert`: `NUMALIGN_TLS_CERT`."""
    return PREFIX + name.upper()


def did_you_mean(word: str, words: Collection[str], *, closeness: float = 0.7) -> str:
    """Return a suggestion for a sentence, with the closest of `words`; empty if none is close."""
    near = closest_word(word, words, cutoff=closeness)
    return f"; did you mean {near}?" if near else ""


def flags(
    argv: Sequence[str], *, names: Collection[str], switches: Collection[str], renamed: Mapping[str, str]
) -> Reading:
    """Read a command line; `switches` are names that need no value, `renamed` old names."""
    # Versions of Python differ in how they read what follows a short flag in the same word.
    if any(word.startswith("-h") and word != "-h" for word in argv):
        return Reading(mistakes=(Mistake("flag --help", "takes no value"),))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-h", "--help", dest="help", action="store_const", const="")
    for name in QUESTIONS[1:]:
        parser.add_argument(flag(name), dest=name, action="store_const", const="")
    for name in (CONFIG, *names):
        # A value is optional only for argparse, which would stop at the first missing one.
        absent = "true" if name in switches else ""
        parser.add_argument(flag(name), dest=name, nargs="?", const=absent)
    try:
        namespace, strays = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        # Values of all other flags are read as text.
        name = str(error.argument_name).rpartition("/")[2]
        return Reading(mistakes=(Mistake(f"flag {name}", "takes no value"),))
    texts = {name: text for name, text in vars(namespace).items() if text is not None}
    return Reading(
        {name: RawValue(text, f"flag {flag(name)}") for name, text in texts.items() if name not in QUESTIONS},
        tuple(
            _unknown_words(
                strays,
                flags=[flag(name) for name in (*QUESTIONS, CONFIG, *names)],
                renamed={flag(old): flag(new) for old, new in renamed.items()},
            )
        ),
        frozenset(texts).intersection(QUESTIONS),
    )


def _unknown_words(
    words: Sequence[str], *, flags: Collection[str], renamed: Mapping[str, str]
) -> Iterator[Mistake]:
    """Yield the unknown flags; the word after one counts as its value, not as a second mistake."""
    after_flag = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_flag = word.startswith("-")
        if is_flag:
            yield Mistake(f"flag {name}", _unknown(name, flags, renamed))
        elif not after_flag:
            yield Mistake(f'argument "{word}"', "is unexpected: settings are written as --name")
        after_flag = is_flag and not equals


def _unknown(name: str, names: Collection[str], renamed: Mapping[str, str]) -> str:
    if name in renamed:
        return f"was renamed: use {renamed[name]}"
    return f"is not known{did_you_mean(name, names)}"


def environment(environ: Mapping[str, str], *, names: Collection[str], renamed: Mapping[str, str]) -> Reading:
    """Read the `NUMALIGN_` variables; an empty one counts as not set.

    Other programs of numalign share the prefix, so an unknown variable is a mistake only if it is close to a
    known one. `tcp://...` never is: the kubelet sets NUMALIGN_PORT like that in every pod beside a Service
    called numalign (Kubernetes documentation, "Accessing the Service", environment variables).
    """
    variables = {variable(name): name for name in (CONFIG, *names)}
    before = {variable(old): variable(new) for old, new in renamed.items()}
    words = [key.removeprefix(PREFIX) for key in variables]
    values: dict[str, RawValue] = {}
    mistakes: list[Mistake] = []
    for key, text in sorted(environ.items()):
        if not key.startswith(PREFIX) or not text or text.startswith("tcp://"):
            continue
        if key in variables:
            values[variables[key]] = RawValue(text, f"environment {key}")
        elif key in before:
            mistakes.append(Mistake(f"environment {key}", _unknown(key, variables, before)))
        elif near := closest_word(key.removeprefix(PREFIX), words, cutoff=0.8):
            mistakes.append(Mistake(f"environment {key}", f"is not known; did you mean {PREFIX}{near}?"))
    return Reading(values, tuple(mistakes))


def file(path: Path, *, names: Collection[str], renamed: Mapping[str, str]) -> Reading:
    """Read a YAML file of `name: value` lines; `null` counts as not set."""
    root = _root(path)
    if isinstance(root, str):
        return Reading(mistakes=(Mistake(f"file {path}", root),))
    values: dict[str, RawValue] = {}
    mistakes: list[Mistake] = []
    keys: set[str] = set()
    for key, value in root.value if root else ():
        name = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping as a key"
        origin = f"file {path} line {key.start_mark.line + 1}: {name}"
        if name not in names:
            mistakes.append(Mistake(origin, _unknown(name, names, renamed)))
        elif name in keys:
            mistakes.append(Mistake(origin, "is set twice"))
        elif not isinstance(value, yaml.ScalarNode):
            mistakes.append(Mistake(origin, "must be a single value, not a list or a mapping"))
        elif value.tag != _NULL:
            values[name] = RawValue(value.value, origin)
        keys.add(name)
    return Reading(values, tuple(mistakes))


def _root(path: Path) -> yaml.MappingNode | str | None:
    """Return the mapping in a file, None if it is empty, or what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
        deque(yaml_events.read(text.encode()), maxlen=0)
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except NestedTooDeep as error:
        return str(error)
    except yaml.YAMLError as error:
        return why_not_yaml(error)
    if root is None or isinstance(root, yaml.MappingNode):
        return root
    return "is not a mapping: write one `name: value` per line"
