"""
Authentication and authorization of users, by the API server.

A token is checked with a TokenReview, and the permissions of its user with SubjectAccessReviews. Any unclear
answer counts as no.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numalign.kube.client import ObjectWriter
from numalign.kube.decode.parts import Part
from numalign.kube.errors import UnknownToken

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
"""The group of users without credentials."""

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class KubeUser:
    """A user of an API server, as it was reported."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission: a verb on a resource, in a `namespace` or, if that is empty, in all."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


async def authenticate(api: ObjectWriter, token: str, *, audience: str = "") -> KubeUser:
    """Return the user of a token for an `audience`, by default that of the API server.

    Raise `UnknownToken` if the API server does not accept it, and other `ClusterError`s.
    """
    spec = {"token": token} | ({"audiences": [audience]} if audience else {})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    status = Part(await api.create(TOKEN_REVIEWS, body, what="tokenreviews"))["status"]
    user = _user(status["user"])
    if status["authenticated"].value is not True or not user.name:
        raise UnknownToken(_reason(status))
    # An API server without support for audiences accepts any token (k8s.io/api/authentication/v1).
    if audience and audience not in [part.text() for part in status["audiences"].elements()]:
        raise UnknownToken(f"the token was not issued for the audience {audience}")
    if user.name == ANONYMOUS or UNAUTHENTICATED in user.groups:
        raise UnknownToken("the token belongs to no user")
    return user


async def allowed(api: ObjectWriter, user: KubeUser, permission: Permission) -> bool:
    """Return whether a user has a permission; raise `ClusterError`."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in (user.extra or {}).items()},
        "resourceAttributes": {
            "verb": permission.verb,
            "group": permission.group,
            "resource": permission.resource,
            "namespace": permission.namespace,
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = Part(await api.create(ACCESS_REVIEWS, body, what="subjectaccessreviews"))["status"]
    return status["allowed"].value is True and status["denied"].value is not True


def _user(part: Part) -> KubeUser:
    extra = {
        key: tuple(value.text() for value in values.elements()) for key, values in part["extra"].members()
    }
    groups = tuple(group.text() for group in part["groups"].elements())
    return KubeUser(part["username"].text(), part["uid"].text(), groups, extra)


def _reason(status: Part) -> str:
    """Return the API server's reason for rejecting a token."""
    reason = " ".join(status["error"].text().split())
    return f"the API server does not accept the token{f': {reason[:_SHOWN]}' if reason else ''}"
