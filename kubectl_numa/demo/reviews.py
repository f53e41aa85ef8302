"""
Reviews of pods, as an API server has them made: first mutate, then validate the result.

Before it calls a webhook, the API server sets its defaults (k8s.io/kubernetes pkg/apis/core/v1/defaults.go)
and runs its own admission plugins (service account, priority, tolerations), so a webhook never sees the
manifest as its owner wrote it. The reviews here look the same. A pod that mutation changed is validated as
changed. Any response that is not a valid review is an error, never a decision.

    ValueError
    └── BadPatch     a patch that an API server could not apply
    ClickException
    └── BadAnswer    a response that an API server would not accept
"""

import asyncio
import base64
import contextlib
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
import click
import orjson

from kubectl_numa.demo.webhook import RunningWebhook

HEADERS: Mapping[str, str] = {"Content-Type": "application/json"}
# The longest timeout that an API server allows.
TIMEOUT = aiohttp.ClientTimeout(total=30)

_KIND = {"group": "", "version": "v1", "kind": "Pod"}
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_USER = {"username": "kubernetes-admin", "groups": ["kubeadm:cluster-admins", "system:authenticated"]}
_SPEC: Mapping[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for condition in ("not-ready", "unreachable")
    ],
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
MESSAGE_PREFIX = "numalign: "
# What precedes the reason of the nodes that come closest, and what follows it.
_SUBJECT = re.compile(r'no node can align (?:[a-z ]+ "[^"]*"|the pod) as [a-z-]+ \([^)]*\): \d+ ')
_END = re.compile(r"(?:, \d+ |(?<=[a-z0-9)\"])[.;:](?= |$)).*", re.DOTALL)
_ONE = re.compile(r"^has\b")
_AMOUNT = re.compile(r"\b\d+(?:\.\d+)?(?:m|[KMGT]i)?\b(?= (?!NUMA zone|nodes))")


class BadPatch(ValueError):
    """Raised if an operation is not one that numalign writes, or does not fit the object."""


class BadAnswer(click.ClickException):
    """Raised if the webhook's response does not answer the review."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The outcome of one pod. `stored` is the pod as it would be stored, None if it is denied.

    `operations` are those of the patch; `message` is why it is denied, and `causes` are the single mistakes.
    """

    pod: Mapping[str, Any]
    stored: Mapping[str, Any] | None
    operations: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    causes: tuple[str, ...] = ()

    @property
    def outcome(self) -> frozenset[str]:
        """The outcome in words: `denied`, or `admitted` with `patched` and `warned` where they apply."""
        if self.stored is None:
            return frozenset({"denied"})
        words = {"admitted": True, "patched": self.operations, "warned": self.warnings}
        return frozenset(word for word, applies in words.items() if applies)


@dataclass(slots=True)
class OutcomeCounts:
    """Counts that grow as outcomes arrive; patched and warned are parts of admitted."""

    words: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)

    def add(self, answer: PodOutcome) -> None:
        """Count one outcome."""
        self.words.update(["reviewed", *answer.outcome])
        self.warnings.update(warning.removeprefix(MESSAGE_PREFIX) for warning in answer.warnings)
        if answer.outcome == {"admitted"}:
            self.words["untouched"] += 1
        if answer.stored is None:
            self.causes[cause(answer.message)] += 1

    def plus(self, other: "OutcomeCounts") -> "OutcomeCounts":
        """Return the sum of both."""
        return OutcomeCounts(
            self.words + other.words, self.causes + other.causes, self.warnings + other.warnings
        )

    def __str__(self) -> str:
        count = self.words
        return (
            f"{count['reviewed']} reviewed, {count['admitted']} admitted "
            f"({count['patched']} patched, {count['warned']} warned), {count['denied']} denied"
        )


Post = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Sends a body to a path of the webhook; returns the status and the body of the response."""


@contextlib.asynccontextmanager
async def line_to(webhook: RunningWebhook, *, connections: int) -> AsyncIterator[Post]:
    """Open connections to a webhook, which trust its own CA, and keep them until the context ends."""
    trust = ssl.create_default_context(cafile=webhook.ca)
    connector = aiohttp.TCPConnector(limit=connections, ssl=trust)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, headers=HEADERS) as session:

        async def post(path: str, body: bytes) -> tuple[int, bytes]:
            try:
                async with session.post(f"{webhook.url}{path}", data=body) as response:
                    return response.status, await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise await webhook.died(f"answering {path} ({type(error).__name__})") from error

        yield post


async def admit(post: Post, manifest: Mapping[str, Any], *, uid: str) -> PodOutcome:
    """Have one pod reviewed as by an API server; raises `BadAnswer` and `WebhookDied`."""
    pod = defaulted(manifest)
    mutation = await _ask(post, "/mutate", pod, uid=f"{uid}-m")
    operations = tuple(orjson.loads(base64.b64decode(mutation["patch"]))) if "patch" in mutation else ()
    try:
        stored = apply(pod, operations) if operations else pod
    except BadPatch as error:
        raise BadAnswer(f"/mutate: {error}") from error
    validation = await _ask(post, "/validate", stored, uid=f"{uid}-v")
    warnings = (*mutation.get("warnings", ()), *validation.get("warnings", ()))
    if validation["allowed"]:
        return PodOutcome(pod, stored, operations, warnings)
    status = validation["status"]
    causes = tuple(
        f"{cause['field']}: {cause['message']}" for cause in status.get("details", {}).get("causes", ())
    )
    return PodOutcome(pod, None, operations, warnings, status["message"], causes)


async def admit_all(
    post: Post, manifests: Iterable[Mapping[str, Any]], *, at_once: int, done: Callable[[PodOutcome], None]
) -> None:
    """Have many pods reviewed, `at_once` concurrently; `done` is called with each outcome as it arrives."""
    numbered, failed = enumerate(manifests), None

    async def work() -> None:
        for number, manifest in numbered:
            done(await admit(post, manifest, uid=f"demo-{number:05}"))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    except* click.ClickException as errors:
        failed = errors
    if failed:
        # Report only the first one: they all have the same cause.
        raise failed.exceptions[0]


async def _ask(post: Post, path: str, pod: Mapping[str, Any], *, uid: str) -> dict[str, Any]:
    """Return the `response` of the review that the webhook returns; raises `BadAnswer`."""
    status, body = await post(path, orjson.dumps(review(pod, uid=uid)))
    if status != HTTPStatus.OK:
        raise BadAnswer(f"{path} answered {status}: {body[:200].decode(errors='replace')}")
    try:
        response: dict[str, Any] = orjson.loads(body)["response"]
        mine = response["uid"] == uid and isinstance(response["allowed"], bool)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        mine = False
    if not mine:
        raise BadAnswer(f"{path} gave no answer to review {uid}: {body[:200].decode(errors='replace')}")
    return response


def review(pod: Mapping[str, Any], *, uid: str) -> dict[str, Any]:
    """Return the review of a pod that is being created; `uid` is unique to the call."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": _KIND,
            "resource": _RESOURCE,
            "requestKind": _KIND,
            "requestResource": _RESOURCE,
            "name": metadata.get("name", ""),
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": _USER,
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def defaulted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod as an API server sends it to webhooks; the manifest is not changed."""
    pod: dict[str, Any] = copied(manifest)
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
    return {**pod, "spec": {**_SPEC, **spec}, "status": {}}


def apply(document: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a copy of the document with all operations applied in order; raises `BadPatch`."""
    patched: dict[str, Any] = copied(document)
    for operation in operations:
        op, path = operation.get("op"), operation.get("path")
        is_ours = op in {"add", "replace"} and isinstance(path, str) and path.startswith("/")
        if not is_ours or "value" not in operation:
            raise BadPatch(f"{operation} is not an operation that numalign writes")
        try:
            _write(patched, str(path), copied(operation["value"]), insert=op == "add")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadPatch(f"{op} {path} does not fit the object") from error
    return patched


def copied(value: Any) -> Any:  # noqa: ANN401 any JSON document
    """Return a deep copy of a document; many times faster than `copy.deepcopy`."""
    return orjson.loads(orjson.dumps(value))


def _write(document: dict[str, Any], path: str, value: object, *, insert: bool) -> None:
    """Write a value at a path; raises a lookup, type or value error if the document has no such place."""
    *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    place: Any = document
    for step in parents:
        place = place[_key(place, step)]
    key: Any = _key(place, last)
    if not insert:
        place[key]
        place[key] = value
    elif not isinstance(place, list):
        place[key] = value
    elif key > len(place):
        raise IndexError(key)
    else:
        place.insert(key, value)


def _key(place: object, step: str) -> str | int:
    """Return a member's name, or the position in a list; `-` is the one after the last."""
    if not isinstance(place, list):
        return step
    if step == "-":
        return len(place)
    if not step.isdecimal() or str(int(step)) != step:
        raise ValueError(step)
    return int(step)


def cause(message: str) -> str:
    """Return the cause of a denial, without its amounts."""
    first = _ONE.sub("have", _SUBJECT.sub("", message.removeprefix(MESSAGE_PREFIX)))
    return _AMOUNT.sub("N", _END.sub("", first))
