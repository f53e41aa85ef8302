"""
AdmissionReview v1: the request, the pod in it, and the answer.

This is the only module of the webhook that handles JSON. A request that is not a review, or not one that a
Kubernetes API server would send, is rejected with all its mistakes (`BadReview`, HTTP 4xx); an invalid pod is
reported to its owner (`InvalidPod`). Unused fields are ignored, so that newer API servers are understood.

Types restrict the responses: a validation cannot contain a patch, nor can a denial. The code of a denial
follows from its reason, and is never one that clients retry (409, 429, 5xx).
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from itertools import accumulate
from typing import Any

import orjson

from numalign.cache.admission import LEVELS, AdmissionDecision, invalid_text, left_out_text, policy_text
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.kube.decode.parts import Part, inner, named
from numalign.kube.decode.pod_reader import UNASKED, PodReader
from numalign.kube.decode.pod_request import runtime_class
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.errors import BadInput, Mistake, cut
from numalign.runtime.nesting import why_not_json
from webhook.patch import Operation

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
LONGEST_UID = 128

# Controllers repeat a denial in an Event, whose note is cut at 1,024 characters.
MESSAGE = 900
CAUSES = 32

# The API server cuts every warning to 256 characters once all of a request exceed 4,096, and drops the rest
# (k8s.io/apiserver, endpoints/filters/warning.go).
WARNING = 256
WARNINGS = 4096

AUDIT = 1000  # Most characters of one audit annotation.
MESSAGE_PREFIX = "numalign"

LONGEST_WARNING = 120  # Most characters of a warning, as Kubernetes recommends for webhooks.
LONGEST_SHOWN = 256
"""Most characters of a denial that is shown as a warning, and of a warning with a location; the API server
may cut longer ones."""


class BadReview(BadInput):
    """Raised when a request is not a valid AdmissionReview; `status` is the HTTP status."""

    def __init__(self, status: HTTPStatus, mistakes: Iterable[Mistake]) -> None:
        self.status = status
        super().__init__(mistakes)


class AdmissionOperation(StrEnum):
    """What the client of the API server does with the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """The type of an object; the group of pods is empty."""

    group: str
    version: str
    kind: str


POD = GroupVersionKind("", "v1", "Pod")
JOB = GroupVersionKind("batch", "v1", "Job")


@dataclass(frozen=True, slots=True)
class Review:
    """A request of the API server.

    `uid` identifies this request alone. `name` is empty for a name still to be generated, `namespace` for
    cluster-scoped objects. `username` is the client of the API server; for the pods of a workload that is a
    controller. `object` is as received, `old` is the object before; each is empty if the operation has none.
    """

    uid: str
    operation: AdmissionOperation
    kind: GroupVersionKind
    sub_resource: str
    namespace: str
    name: str
    dry_run: bool
    username: str
    groups: tuple[str, ...]
    object: dict[str, Any]
    old: dict[str, Any]


class StatusReason(StrEnum):
    """Why a request is denied, as a reason of the Kubernetes API."""

    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    """What may be part of any response.

    Warnings are shown to the client of the API server. Audit keys must not contain a slash, because the API
    server prefixes them with the webhook's name and one: otherwise raise `ValueError`. Values must be the
    same in every pass, and are cut after `AUDIT` characters.
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
    """Allowed, without changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched(_Notes):
    """Allowed, with these operations; without any it equals `Allowed`."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(_Notes):
    """Denied; the first sentence of the message is the decisive one, and it is cut after 900 characters."""

    reason: StatusReason
    message: str
    causes: tuple[Mistake, ...] = ()


def read(body: bytes) -> Review:
    """Return the request; raise `BadReview` with all mistakes. Null counts as absent, as in API servers."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        mistake = Mistake("", f"the body {why_not_json(body, error)}" if body else "the body is empty")
        raise BadReview(HTTPStatus.BAD_REQUEST, [mistake]) from None
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
    """Return the review of a request; None if the operation is unknown. Mistakes are added to the request."""
    uid, operation, created, old = (request[name] for name in ("uid", "operation", "object", "oldObject"))
    if len(uid.required_text()) > LONGEST_UID:
        uid.wrong(f"is longer than {LONGEST_UID} characters")
    kind = _names(request["kind"], "kind")
    _names(request["resource"], "resource")
    word, known = operation.required_text(), [*AdmissionOperation]
    verb = AdmissionOperation(word) if word in known else None
    if word and verb is None:
        operation.wrong(f"must be one of {', '.join(known)}, not {named(word)}")
    if created.value is None and verb in {AdmissionOperation.CREATE, AdmissionOperation.UPDATE}:
        created.wrong("is missing: CREATE and UPDATE require it")
    user = request["userInfo"]
    if verb is None:
        return None
    return Review(
        uid=uid.text(),
        operation=verb,
        kind=GroupVersionKind(*kind),
        sub_resource=request["subResource"].text(),
        namespace=request["namespace"].text(),
        name=request["name"].text(),
        dry_run=request["dryRun"].boolean() or False,
        username=user["username"].text(),
        groups=tuple(group.text() for group in user["groups"].elements()),
        object=_object(created),
        old=_object(old),
    )


def _is_object(part: Part) -> bool:
    """Return whether there is a value; note a mistake if it is not an object."""
    if part.value is not None and not isinstance(part.value, dict):
        part.wrong(f"must be an object, not {named(part.value)}")
    return part.value is not None


def _object(part: Part) -> dict[str, Any]:
    value: Any = part.value
    return value if _is_object(part) else {}


def _names(part: Part, last: str) -> tuple[str, str, str]:
    if not _is_object(part.required()):
        return "", "", ""
    return part["group"].text(), part["version"].required().text(), part[last].required().text()


class SkipReason(StrEnum):
    """Why a review is skipped."""

    KIND = "kind"
    OPERATION = "operation"
    EXEMPT = "exempt"
    SILENT = "silent"
    OWNED = "owned"
    UNCHANGED = "unchanged"


class InvalidPod(BadInput):
    """Raised when a pod that numalign must evaluate cannot be read."""


@dataclass(frozen=True, slots=True)
class ReviewedPod:
    """One pod under review: what it requests, and the pod itself."""

    request: PodQuestion
    pod: Mapping[str, Any]


def created_pod(
    review: Review,
    policy: EffectivePolicy,
    *,
    reader: PodReader,
    server: int | None = None,
    kind: GroupVersionKind = POD,
) -> ReviewedPod | SkipReason:
    """
    Read the pod under review, or the template of a Job with `kind` JOB, or return why the review is skipped.

    `server` is the minor version of the API server that is to complete it, None if it is complete. Raise
    `InvalidPod` with every mistake in its requests.
    """
    pod = review.object if kind == POD else inner(inner(review.object, "spec"), "template")
    if review.kind != kind or not isinstance(pod, dict):
        return SkipReason.KIND
    if review.operation is not AdmissionOperation.CREATE or review.sub_resource:
        return SkipReason.OPERATION
    return read_pod(pod, review, policy, reader, server)


def exempt(pod: object, review: Review, policy: EffectivePolicy) -> str | None:
    """Return why a pod, or a pod template, is exempt; None if it is not."""
    return policy.exemption(review.namespace, runtime_class=runtime_class(pod), user=review.username)


def read_pod(
    pod: object, review: Review, policy: EffectivePolicy, reader: PodReader, server: int | None
) -> ReviewedPod | SkipReason:
    """Read a pod or a pod template under review; raise `InvalidPod` as `created_pod` does."""
    request = reader.read(pod, review.namespace, policy, review.username, server=server)
    if isinstance(request, Invalid):
        raise InvalidPod(request.mistakes)
    if isinstance(request, Exempt):
        return SkipReason.SILENT if request.reason == UNASKED else SkipReason.EXEMPT
    raw: Any = pod
    return SkipReason.SILENT if request.silent else ReviewedPod(request, raw)


def refuse_broken(error: InvalidPod) -> Denied:
    """Return the denial of a pod whose annotations or amounts are invalid, with the field of each mistake."""
    return Denied(
        reason=StatusReason.INVALID,
        message=f"{MESSAGE_PREFIX}: {invalid_text(error.mistakes)}",
        causes=error.mistakes,
        audit={"verdict": "invalid"},
    )


def refused(pod: PodQuestion, decision: AdmissionDecision) -> dict[str, str]:
    """Return the audit annotations of a denied pod: the basis of the decision, its policy and the level."""
    level = {"level": pod.rules.enforce} if pod.rules.enforce else {}
    return {"verdict": "denied", "state": decision.state, "policy": policy_text(pod), **level}


def admitted(pod: PodQuestion) -> str:
    """Return the audit annotation of an admitted pod."""
    level = LEVELS["audit"](pod.rules)
    if not level or not pod.requests_less_than(level):
        return f"admitted with {policy_text(pod)}"
    missing = left_out_text(pod, level)
    return f"admitted with {policy_text(pod)}, below {level}{f': {missing}' if missing else ''}"


def warning(text: str, most: int = LONGEST_WARNING) -> str:
    """Return a warning as clients show it, at most so many characters long."""
    return cut(f"{MESSAGE_PREFIX}: {text}", most)


def long_warning(text: str) -> str:
    """Return a warning that needs more room."""
    return warning(text, LONGEST_SHOWN)


def encode(uid: str, answer: Allowed | Patched | Denied) -> bytes:
    """Return the body of the response to a call, without empty members."""
    response: dict[str, object] = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    if isinstance(answer, Denied):
        causes = [
            {
                "reason": "FieldValueInvalid",
                "field": _UNPRINTABLE.sub(" ", mistake.where),
                "message": _shown(str(replace(mistake, where=""))),
            }
            for mistake in answer.causes[:CAUSES]
        ]
        forbidden = answer.reason is StatusReason.FORBIDDEN
        response["status"] = {
            "code": HTTPStatus.FORBIDDEN if forbidden else HTTPStatus.UNPROCESSABLE_ENTITY,
            "reason": answer.reason,
            "message": _shown(answer.message),
            **({"details": {"causes": causes}} if causes else {}),
        }
    # An empty patch with a patch type is an error for the API server.
    elif isinstance(answer, Patched) and answer.operations:
        patch = base64.b64encode(orjson.dumps(answer.operations)).decode("ascii")
        response |= {"patchType": "JSONPatch", "patch": patch}
    if warnings := _short_warnings(answer.warnings):
        response["warnings"] = warnings
    if answer.audit:
        response["auditAnnotations"] = dict(sorted(answer.audit.items()))
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _shown(message: str) -> str:
    """Return a message as it is sent; only the beginning of a very long one is processed."""
    return _cut(_UNPRINTABLE.sub(" ", message[: 2 * MESSAGE]), MESSAGE)


def _short_warnings(texts: Iterable[str]) -> list[str]:
    """Return warnings that the API server neither cuts nor drops, and a last one that counts the others."""
    lines = (_cut(_CONTROL.sub(" ", text[: 4 * WARNING]).strip(), WARNING) for text in texts)
    short = [line for line in dict.fromkeys(lines) if line]
    if sum(map(len, short)) <= WARNINGS:
        return short
    totals = accumulate(map(len, short))
    kept = [line for line, total in zip(short, totals, strict=True) if total <= WARNINGS - 64]
    return [*kept, f"{len(short) - len(kept)} more warnings are not shown"]


def _cut(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, at the end of a sentence or else of a word."""
    if len(text) <= limit:
        return text
    ends = [end.end() for end in _SENTENCE_END.finditer(text, limit // 2, limit + 1)]
    if ends:
        return text[: ends[-1]]
    word = _CUT_WORD.search(text, limit // 2, limit)
    return f"{text[: word.start() if word else limit - 1]}…"


# Kubernetes parses the name of an audit annotation as a qualified name.
_AUDIT_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# A warning with a control character is dropped as a whole (k8s.io/apimachinery, util/net/http.go).
_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
# Line breaks stay, because a caret may point at the line above.
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_CUT_WORD = re.compile(r"\s\S*\Z")
