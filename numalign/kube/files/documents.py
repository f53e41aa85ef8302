"""
Files of Kubernetes objects in JSON or YAML, also with several documents, and also gzipped.

A file may be the output of kubectl, edited by hand, truncated by a pipe, or built as an attack. Its documents
are decoded into plain values. Input that is too deep, too large or endless is refused before it is built:
libyaml takes minutes for a hundred thousand opening brackets, and a kilobyte of YAML aliases can expand to
more than fits into any memory.
"""

import codecs
import json
import re
import sys
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import orjson
import yaml

from numalign.kube.decode.parts import Part, group, named
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import yaml_events
from numalign.runtime.nesting import TOO_DEEP, is_too_deep
from numalign.runtime.yaml_events import NestedTooDeep, why_not_yaml

MOST_BYTES = 2**30
"""The limit of a file after decompression: the pods of a very large cluster, as stored."""

# The levels of a list and of its array of items.
_ABOVE_ITEMS = 2
_MOST_BORROWED = 1_000_000
_GZIP = b"\x1f\x8b"
_WITH_HEADER = 16 + zlib.MAX_WBITS

# A first key in quotes, or no key. Anything else in braces may be YAML.
_JSON = re.compile(rb'\s*[{\[]\s*["{\[}\]]')
_NEXT = re.compile(rb"^---", re.MULTILINE)

# PowerShell redirects in UTF-16.
_MARKS: Mapping[bytes, str] = MappingProxyType(
    {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
)

# Types of YAML that Kubernetes does not have: a date remains a text.
_FOREIGN = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})


# A list as programs print it: before its items it has only texts and flat objects.
_SPACE = r"[ \t\r\n]*"
_TO_ITEMS = re.compile(
    rf"""{_SPACE}\{{(?:{_SPACE}"[^"\\]*"{_SPACE}:{_SPACE}(?:"[^"\\]*"|\{{[^{{}}\[\]]*\}}){_SPACE},)*"""
    rf"""{_SPACE}"items"{_SPACE}:{_SPACE}\[{_SPACE}"""
)
_BETWEEN = re.compile(rf"{_SPACE}([,\]]){_SPACE}")
_skip = json.JSONDecoder().raw_decode


class BadDocument(BadInput):
    """Raised when a file cannot be read, or contains no Kubernetes object."""


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a file, possibly an item of a list.

    `where` is its path inside the file. `trouble` is why it is not an object; `raw` is empty in that case.
    """

    raw: Mapping[str, object]
    where: str
    group: str = ""
    kind: str = ""
    trouble: Mistake | None = None


def load(path: Path | str, *, stdin: BinaryIO | None = None) -> list[object]:
    """Return the documents of a file as `read` does; `-` is standard input, and mistakes name the file."""
    try:
        return read(_content(path, stdin))
    except BadDocument as error:
        raise _of_file(path, error) from error


def stream(path: Path | str, *, stdin: BinaryIO | None = None) -> Iterator[Document]:
    """Yield the objects of a file as `load` and `objects` return them, each decoded when it is yielded.

    So a large list in JSON takes little more memory than its text. `BadDocument` may come after some objects.
    """
    try:
        yield from objects(_whole(_lazily(_plain(_content(path, stdin), MOST_BYTES))))
    except BadDocument as error:
        raise _of_file(path, error) from error


def read(data: bytes, *, most: int = MOST_BYTES) -> list[object]:
    """Return the documents of a file; raise `BadDocument` if it is unreadable or none is an object."""
    return _whole(values(data, most=most))


def values(data: bytes, *, most: int = MOST_BYTES) -> list[object]:
    """Return the documents as `read` does, whatever they contain; there is at least one."""
    return _values(_plain(data, most))


def _whole(documents: list[object]) -> list[object]:
    troubles = [document.trouble for document in map(_found, documents)]
    if not all(troubles):
        return documents
    mistakes = list(filter(None, troubles))
    if len(mistakes) > 1:
        mistakes = [mistake.under(f"document {number}") for number, mistake in enumerate(mistakes, start=1)]
    raise BadDocument(mistakes)


def _plain(data: bytes, most: int) -> bytes:
    """Return the text of a file in UTF-8, unpacked and without a byte order mark."""
    if data.startswith(_GZIP):
        unpacker = zlib.decompressobj(_WITH_HEADER)
        try:
            data = unpacker.decompress(data, most + 1)
        except zlib.error as error:
            raise _bad(f"is not a valid gzip file: {error}") from error
        if len(data) <= most and not unpacker.eof:
            raise _bad("is a truncated gzip file")
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            try:
                data = data.decode(encoding).encode()
            except UnicodeDecodeError as error:
                raise _bad(f"is not {encoding} text: {error.reason}") from error
            break
    if len(data) > most:
        raise _bad(f"has more than {most} bytes")
    return data


def _values(plain: bytes) -> list[object]:
    documents = [_json(plain)] if _is_one_json(plain) else _yaml(plain)
    if not documents:
        raise _bad("is empty")
    return documents


def _of_file(path: Path | str, error: BadDocument) -> BadDocument:
    where = "standard input" if str(path) == "-" else str(path)
    return BadDocument(mistake.under(where) for mistake in error.mistakes)


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a list in JSON, each decoded on demand; errors are those of the whole text."""

    plain: bytes
    ends: Sequence[int]
    """Where each item begins and ends, in turn."""

    def __iter__(self) -> Iterator[object]:
        places = iter(self.ends)
        for start, end in zip(places, places, strict=True):
            try:
                item = _json(self.plain[start:end], above=_ABOVE_ITEMS)
            except BadDocument:
                # This raises an error with the position in the whole text.
                _json(self.plain)
                raise
            yield item


def _lazily(plain: bytes) -> list[object]:
    """Return the documents of a file; items of a JSON list are decoded later, if they can be located."""
    ends = _ends(plain) if _is_one_json(plain) else None
    if not ends:
        return _values(plain)
    mark = "here are the items"
    try:
        frame = _json(plain[: ends[0]] + orjson.dumps(mark) + plain[ends[-1] :])
    except BadDocument:
        return _values(plain)
    # It may be no list, or have another member `items`.
    if not _is_list(_found(frame)) or frame["items"] != [mark]:
        return _values(plain)
    return [{**frame, "items": _Items(plain, ends)}]


def _ends(plain: bytes) -> Sequence[int] | None:
    """Return where each item of a list begins and ends; None if it is not a list or not recognised.

    The scanner of the standard library finds the end of a value, and accepts more than the decoder that is
    used afterwards. In Latin-1 each byte is one character, and no byte of a longer one is a bracket.
    """
    text, ends = plain.decode("latin-1"), array("q")
    place = _TO_ITEMS.match(text)
    try:
        while place:
            _, end = _skip(text, place.end())
            ends.extend((place.end(), end))
            place = _BETWEEN.match(text, end)
            if place and place[1] == "]":
                return ends
    except (ValueError, RecursionError):
        pass
    return None


def _is_one_json(plain: bytes) -> bool:
    """Return whether a text begins as JSON, and no line of it begins another YAML document."""
    return bool(_JSON.match(plain)) and not _NEXT.search(plain)


def objects(documents: Iterable[object]) -> Iterator[Document]:
    """Yield every object, also of nested lists; items of a typed list (`NodeList`) need not have a kind."""
    waiting: deque[Iterator[Document]] = deque([map(_found, documents)])
    while waiting:
        for document in waiting.popleft():
            if _is_list(document):
                waiting.append(_items(document))
            else:
                yield document


def _found(value: object, where: str = "document") -> Document:
    part = Part(value)
    kind, version = part["kind"].required_text(), part["apiVersion"].text()
    if part.mistakes:
        return Document({}, where, trouble=part.mistakes[0])
    return Document(cast("Mapping[str, object]", value), where, group(version), kind)


def _is_list(document: Document) -> bool:
    if document.trouble or not document.kind.endswith("List"):
        return False
    return document.kind == "List" or "items" in document.raw


def _items(of: Document) -> Iterator[Document]:
    items = of.raw.get("items") or []
    if not isinstance(items, list | _Items):
        mistake = Mistake("items", f"must be a list, not {named(items)}")
        yield Document({}, of.where, kind=of.kind, trouble=mistake)
        return
    kind = of.kind.removesuffix("List")
    inherited = {"kind": kind, "apiVersion": of.raw.get("apiVersion")} if kind else {}
    for index, item in enumerate(items):
        typed = {**inherited, **item} if inherited and isinstance(item, dict) else item
        yield _found(typed, f"{of.where}.items[{index}]".removeprefix("document."))


def _content(path: Path | str, stdin: BinaryIO | None) -> bytes:
    if str(path) == "-":
        # Python has no standard input at all if the caller closed it.
        if stdin is None and sys.stdin is None:
            raise _bad("is closed")
        return (stdin or sys.stdin.buffer).read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _bad(f"cannot be read: {error.strerror}") from error


def _json(data: bytes, *, above: int = 0) -> Any:  # noqa: ANN401  as orjson
    if is_too_deep(data, above):
        raise _bad(TOO_DEEP)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _bad(f"is not JSON: {error}") from error


def _yaml(data: bytes) -> list[object]:
    try:
        _bounded(yaml_events.read(data))
        return [document for document in yaml.load_all(data, Loader=_Loader) if document is not None]
    except BadDocument:
        raise
    except NestedTooDeep as error:
        raise _bad(str(error)) from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # The library trusts explicit tags like `!!bool foo`, and fails if values do not match them.
        raise _bad(why_not_yaml(error)) from error


def _bounded(events: Iterable[yaml.Event]) -> None:
    """Check the events of a YAML stream; raise `BadDocument` if its size is not bounded."""
    sizes: dict[str | None, int] = {}
    trail: list[tuple[str | None, int]] = []
    total = borrowed = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _bad(f"has the alias *{event.anchor}, which is undefined or refers to itself")
            borrowed += sizes[event.anchor]
            total += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)
            trail.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = trail.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            total += 1
        if borrowed > _MOST_BORROWED:
            raise _bad(f"expands to more than {_MOST_BORROWED} values through its aliases")


class _Loader(yaml.CSafeLoader):
    """The safe loader, without the types that Kubernetes does not have."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML wants it so
        first: [(tag, shape) for tag, shape in resolvers if tag not in _FOREIGN]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _bad(message: str) -> BadDocument:
    return BadDocument([Mistake("", message)])
