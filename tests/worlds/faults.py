"""The faults of an API server: how the fake one gets each, and the error of a client."""

from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from numalign.kube.errors import (
    ClusterError,
    Conflict,
    Failing,
    Forbidden,
    Gone,
    NotFound,
    Throttled,
    Unauthorized,
    Unreachable,
)
from tools.clusters.fake_api import FakeApi


class Fault(NamedTuple):
    """A fault of the requests to one path."""

    cause: Callable[[FakeApi, str], object]
    error: type[ClusterError]


def _status(status: HTTPStatus, error: type[ClusterError]) -> Fault:
    return Fault(lambda api, path: api.failures.update({path: status}), error)


FAULTS = {
    "unauthorized": _status(HTTPStatus.UNAUTHORIZED, Unauthorized),
    "forbidden": _status(HTTPStatus.FORBIDDEN, Forbidden),
    "absent": _status(HTTPStatus.NOT_FOUND, NotFound),
    "conflict": _status(HTTPStatus.CONFLICT, Conflict),
    "gone": _status(HTTPStatus.GONE, Gone),
    "overloaded": _status(HTTPStatus.TOO_MANY_REQUESTS, Throttled),
    "failing": _status(HTTPStatus.INTERNAL_SERVER_ERROR, Failing),
    "nonsense": Fault(lambda api, path: api.oddities.update({path: b"<html>"}), Unreachable),
    "unreachable": Fault(lambda api, _: api.stop(), Unreachable),
    "hanging": Fault(lambda api, path: api.hung.add(path), Unreachable),
}


async def cause(api: FakeApi, fault: str, path: str) -> None:
    result = FAULTS[fault].cause(api, path)
    if result is not None:
        await result  # type: ignore[misc]


async def mend(api: FakeApi) -> None:
    for faults in (api.failures, api.oddities, api.hung):
        faults.clear()
    await api.start()
