"""
AdmissionReview v1 on the wire, read and answered.

The one place where the webhook meets JSON. A call that is no review, or not one that the API server of
Kubernetes would make, ends here with everything that is wrong with it (`BadReview`, HTTP 4xx); a pod that
is wrong is not our matter. Fields nobody here needs are ignored, so that newer API servers are understood.

What may be answered is a type: validation cannot carry a patch, a refusal cannot either, and the code of
a refusal follows from its reason, never one that clients take for "try again" (409, 429, 5xx).
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode.parts import Part, named
from numalign.model.errors import BadInput, Mistake, cut
from webhook.patch import Operation

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
LONGEST_UID = 128

# Controllers repeat a refusal in an Event, whose note is cut at 1,024 characters.
MESSAGE = 900
CAUSES = 32

# The API server cuts every warning to 256 once all of a request exceed 4,096, and drops the rest
# (k8s.io/apiserver, endpoints/filters/warning.go).
WARNING = 256
WARNINGS = 4096

AUDIT = 1000
"""Characters of one audit annotation."""


class BadReview(BadInput):
    """Raised when a call is not an AdmissionReview that can be answered; `status` is for HTTP."""

    def __init__(self, status: HTTPStatus, mistakes: Iterable[Mistake]) -> None:
        self.status = status
        super().__init__(mistakes)


class AdmissionOperation(StrEnum):
    """What the caller of the API server does with the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


_OPERATIONS = MappingProxyType({operation.value: operation for operation in AdmissionOperation})


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """What sort of object it is; the group of pods is empty."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """Under which name the API server serves the object."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who calls the API server; for the pods of a workload that is a controller."""

    username: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """
    What the API server asks.

    `uid` is of this call alone. `name` is empty for a name still to be generated, `namespace` for objects
    that have none. `object` is as received, `old` as it was before; either is empty where the operation
    carries none.
    """

    uid: str
    operation: AdmissionOperation
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str
    namespace: str
    name: str
    dry_run: bool
    user: UserInfo
    object: dict[str, Any]
    old: dict[str, Any]


class StatusReason(StrEnum):
    """Why a request is refused, in the words of the Kubernetes API."""

    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """
    What may go with any answer.

    Warnings reach whoever called the API server. Audit keys hold no slash, since the API server puts the
    webhook's name and one before them; `ValueError` where one does. Values must be the same in every pass,
    and are cut after `AUDIT` characters.
    """

    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unusable = [key for key in self.audit if not _AUDIT_KEY.fullmatch(key)]
        if unusable:
            raise ValueError(f"audit annotations cannot have the keys {unusable}")
        object.__setattr__(self, "audit", {key: cut(text, AUDIT) for key, text in self.audit.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed(_Notes):
    """Yes, as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched(_Notes):
    """Yes, with these operations; with none of them the same as `Allowed`."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(_Notes):
    """
    No, and why: the first sentence of the message decides.

    The message is cut after 900 characters, at the end of a sentence if one is near.
    """

    reason: StatusReason
    message: str
    causes: tuple[Mistake, ...] = ()


def read(body: bytes) -> Review:
    """What the API server asks; raises `BadReview` with all that is wrong with the call.

    Null is taken for absent, as the API server's own decoder does.
    """
    document = _json(body)
    if not isinstance(document, dict):
        mistake = Mistake("", f"the body must be an {KIND}, a JSON object, not {named(document)}")
        raise BadReview(HTTPStatus.BAD_REQUEST, [mistake])
    frame = Part(document)
    for name, word in (("apiVersion", API_VERSION), ("kind", KIND)):
        member = frame[name]
        if (text := member.required_text()) and text != word:
            member.wrong(f"must be '{word}', not {named(text)}")
    request = frame["request"]
    review = _review(request) if _is_object(request.required()) else None
    if review is None or frame.mistakes:
        raise BadReview(HTTPStatus.UNPROCESSABLE_ENTITY, frame.mistakes)
    return review


def _review(request: Part) -> Review | None:
    """The review of a request; None where the operation is none. Mistakes are noted in the request."""
    uid, operation, created, old = (request[name] for name in ("uid", "operation", "object", "oldObject"))
    if len(uid.required_text()) > LONGEST_UID:
        uid.wrong(f"is longer than {LONGEST_UID} characters")
    kind, resource = _names(request["kind"], "kind"), _names(request["resource"], "resource")
    word = operation.required_text()
    verb = _OPERATIONS.get(word)
    if word and verb is None:
        operation.wrong(f"must be one of {', '.join(_OPERATIONS)}, not {named(word)}")
    if created.value is None and verb in {AdmissionOperation.CREATE, AdmissionOperation.UPDATE}:
        created.wrong("is missing: CREATE and UPDATE require it")
    user = request["userInfo"]
    if verb is None:
        return None
    return Review(
        uid=uid.text(),
        operation=verb,
        kind=GroupVersionKind(*kind),
        resource=GroupVersionResource(*resource),
        sub_resource=request["subResource"].text(),
        namespace=request["namespace"].text(),
        name=request["name"].text(),
        dry_run=request["dryRun"].boolean() or False,
        user=UserInfo(user["username"].text(), tuple(group.text() for group in user["groups"].elements())),
        object=_object(created),
        old=_object(old),
    )


def _is_object(part: Part) -> bool:
    """Whether there is an object; a mistake, if there is something else."""
    if part.value is not None and not isinstance(part.value, dict):
        part.wrong(f"must be an object, not {named(part.value)}")
    return part.value is not None


def _object(part: Part) -> dict[str, Any]:
    value: Any = part.value
    return value if _is_object(part) else {}


def _names(part: Part, last: str) -> tuple[str, str, str]:
    """Group, version and one name more."""
    if not _is_object(part.required()):
        return "", "", ""
    return part["group"].text(), part["version"].required().text(), part[last].required().text()


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        mistake = Mistake("", f"the body is not JSON: {error}" if body else "the body is empty")
        raise BadReview(HTTPStatus.BAD_REQUEST, [mistake]) from None


def answer_validation(uid: str, answer: Allowed | Denied) -> bytes:
    """The body to answer a validating call with."""
    return _body(uid, answer)


def answer_mutation(uid: str, answer: Allowed | Patched | Denied) -> bytes:
    """The body to answer a mutating call with."""
    return _body(uid, answer)


def _body(uid: str, answer: Allowed | Patched | Denied) -> bytes:
    """The answer on the wire, without the members that say nothing."""
    response: dict[str, object] = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    if isinstance(answer, Denied):
        response["status"] = _status(answer)
    # An empty patch with its type would be an error to the API server.
    elif isinstance(answer, Patched) and answer.operations:
        patch = base64.b64encode(orjson.dumps(answer.operations)).decode("ascii")
        response |= {"patchType": "JSONPatch", "patch": patch}
    if warnings := _warnings(answer.warnings):
        response["warnings"] = warnings
    if answer.audit:
        response["auditAnnotations"] = dict(sorted(answer.audit.items()))
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(denied: Denied) -> dict[str, object]:
    status: dict[str, object] = {
        "code": _CODES[denied.reason],
        "reason": denied.reason,
        "message": _shown(denied.message),
    }
    causes = [_cause(mistake) for mistake in denied.causes[:CAUSES]]
    return {**status, "details": {"causes": causes}} if causes else status


def _cause(mistake: Mistake) -> dict[str, str]:
    message = _shown(str(replace(mistake, where="")))
    return {"reason": "FieldValueInvalid", "field": _harmless(mistake.where), "message": message}


def _shown(message: str) -> str:
    """A message as it is answered; of one that is far too long, the beginning alone is looked at."""
    return _cut(_harmless(message[: 2 * MESSAGE]), MESSAGE)


def _harmless(text: str) -> str:
    """Without what would steer a terminal; lines stay, for a caret stands under its place."""
    return _UNSEEN.sub(" ", text)


def _warnings(texts: Iterable[str]) -> list[str]:
    """Warnings that the API server will neither cut nor drop, and a last one that counts the others."""
    lines = (_cut(_CONTROL.sub(" ", text[: 4 * WARNING]).strip(), WARNING) for text in texts)
    short = [line for line in dict.fromkeys(lines) if line]
    if sum(map(len, short)) <= WARNINGS:
        return short
    totals = accumulate(map(len, short))
    kept = [line for line, total in zip(short, totals, strict=True) if total <= WARNINGS - 64]
    return [*kept, f"{len(short) - len(kept)} more warnings are not shown"]


def _cut(text: str, limit: int) -> str:
    """A text of at most so many characters, ended where a sentence or else a word ends."""
    if len(text) <= limit:
        return text
    ends = [end.end() for end in _SENTENCE_END.finditer(text, limit // 2, limit + 1)]
    if ends:
        return text[: ends[-1]]
    word = _LAST_WORD.search(text, limit // 2, limit)
    return f"{text[: word.start() if word else limit - 1]}…"


# Kubernetes reads the name of an audit annotation as a qualified name.
_AUDIT_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# A warning with a control character is lost as a whole (k8s.io/apimachinery, util/net/http.go).
_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_LAST_WORD = re.compile(r"\s\S*\Z")

_CODES = MappingProxyType(
    {StatusReason.FORBIDDEN: HTTPStatus.FORBIDDEN, StatusReason.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY}
)
