"""
AdmissionReview v1 on the wire, read and answered.

The one place where the webhook meets JSON. A call that is no review, or not one that the API server of
Kubernetes would make, ends here with everything that is wrong with it (`BadReview`, HTTP 4xx); a pod that
is wrong is not our matter. Fields nobody here needs are ignored, so that newer API servers are understood.

What a door may answer is a type: validation cannot carry a patch, a refusal cannot either, and the code of
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
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from numalign.kube.decode.parts import named
from numalign.model.errors import BadInput, Mistake, cut
from webhook.patch import Operation

ApiVersion: TypeAlias = Literal["admission.k8s.io/v1"]
AdmissionReview: TypeAlias = Literal["AdmissionReview"]

API_VERSION: ApiVersion = "admission.k8s.io/v1"
KIND: AdmissionReview = "AdmissionReview"

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
    """What the API server asks; raises `BadReview` with all that is wrong with the call."""
    document = _json(body)
    if not isinstance(document, dict):
        mistake = Mistake("", f"the body must be an {KIND}, a JSON object, not {named(document)}")
        raise BadReview(HTTPStatus.BAD_REQUEST, [mistake])
    try:
        return _Wire.model_validate(document).request.review()
    except ValidationError as error:
        mistakes = map(_mistake, error.errors(include_url=False))
        raise BadReview(HTTPStatus.UNPROCESSABLE_ENTITY, mistakes) from None


def answer_validation(uid: str, answer: Allowed | Denied) -> bytes:
    """The body to answer a validating call with."""
    return _body({"uid": uid, **_decision(answer)}, answer)


def answer_mutation(uid: str, answer: Allowed | Patched | Denied) -> bytes:
    """The body to answer a mutating call with."""
    return _body({"uid": uid, **_decision(answer), **_patch(answer)}, answer)


def _absent_as(empty: object) -> BeforeValidator:
    """Take null for absent, as the API server's own decoder does."""
    return BeforeValidator(lambda value: empty if value is None else value)


_Text = Annotated[str, _absent_as("")]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _WireKind(_Model):
    group: _Text = ""
    version: str
    kind: str


class _WireResource(_Model):
    group: _Text = ""
    version: str
    resource: str


class _WireUser(_Model):
    username: _Text = ""
    groups: Annotated[list[str], FailFast(), _absent_as([])] = []


class _WireRequest(_Model):
    uid: Annotated[str, Field(min_length=1, max_length=128)]
    kind: _WireKind
    resource: _WireResource
    sub_resource: _Text = ""
    name: _Text = ""
    namespace: _Text = ""
    operation: AdmissionOperation
    user_info: Annotated[_WireUser, _absent_as({})] = _WireUser()
    dry_run: Annotated[StrictBool, _absent_as(empty=False)] = False
    object: Annotated[dict[str, Any] | None, Field(validate_default=True)] = None
    old_object: dict[str, Any] | None = None

    @field_validator("object")
    @classmethod
    def _is_there(cls, value: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        operation = info.data.get("operation")
        if value is None and operation in {AdmissionOperation.CREATE, AdmissionOperation.UPDATE}:
            raise PydanticCustomError("absent", "is missing, though this is a CREATE or UPDATE")
        return value

    def review(self) -> Review:
        return Review(
            uid=self.uid,
            operation=self.operation,
            kind=GroupVersionKind(self.kind.group, self.kind.version, self.kind.kind),
            resource=GroupVersionResource(self.resource.group, self.resource.version, self.resource.resource),
            sub_resource=self.sub_resource,
            namespace=self.namespace,
            name=self.name,
            dry_run=self.dry_run,
            user=UserInfo(self.user_info.username, tuple(self.user_info.groups)),
            object=self.object or {},
            old=self.old_object or {},
        )


class _Wire(_Model):
    api_version: ApiVersion
    kind: AdmissionReview
    request: _WireRequest


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        mistake = Mistake("", f"the body is not JSON: {error}" if body else "the body is empty")
        raise BadReview(HTTPStatus.BAD_REQUEST, [mistake]) from None


def _where(steps: Iterable[str | int]) -> str:
    """A place as people write it, like request.userInfo.groups[3]."""
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return _cut(dotted.removeprefix("."), WARNING)


def _mistake(error: ErrorDetails) -> Mistake:
    return Mistake(_where(error["loc"]), _SENTENCES.get(error["type"], "{msg}").format(**_words(error)))


def _words(error: ErrorDetails) -> dict[str, object]:
    """What a sentence about a mistake may mention."""
    return {"msg": error["msg"], "found": named(error["input"]), **error.get("ctx", {})}


def _body(response: Mapping[str, object], notes: _Notes) -> bytes:
    """The answer on the wire, without the members that say nothing."""
    extras = {"warnings": _warnings(notes.warnings), "auditAnnotations": dict(sorted(notes.audit.items()))}
    said = {name: extra for name, extra in extras.items() if extra}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": {**response, **said}})


def _decision(answer: Allowed | Patched | Denied) -> dict[str, object]:
    if isinstance(answer, Denied):
        return {"allowed": False, "status": _status(answer)}
    return {"allowed": True}


def _patch(answer: Allowed | Patched | Denied) -> dict[str, object]:
    """The patch, or nothing: an empty one with its type would be an error to the API server."""
    if not isinstance(answer, Patched) or not answer.operations:
        return {}
    patch = base64.b64encode(orjson.dumps(answer.operations)).decode("ascii")
    return {"patchType": "JSONPatch", "patch": patch}


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

# What pydantic found -> what we say of it.
_SENTENCES = MappingProxyType(
    {
        "missing": "is missing",
        "string_type": "must be a text, not {found}",
        "string_too_short": "is empty",
        "string_too_long": "is longer than {max_length} characters",
        "bool_type": "must be true or false, not {found}",
        "list_type": "must be a list, not {found}",
        "dict_type": "must be an object, not {found}",
        "model_type": "must be an object, not {found}",
        "literal_error": "must be {expected}, not {found}",
        "enum": "must be {expected}, not {found}",
    }
)
