"""
The address of an API server and the credentials for it, as plain values.

A pod finds both in its environment and in the files of its service account, without a client library, whose
import alone takes more memory than a small program. `client.access` reads kubeconfigs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numalign.kube.errors import Unconfigured

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True)
class Access:
    """An API server, and the credentials to use there.

    `host` is its address, as in `https://10.0.0.1:443`. `authority` is the file of the CA that signs its
    certificate, None for those of the system, and `verify` is whether the certificate is verified. The
    credentials are a `token`, a `token_file` that is renewed from time to time, or the files of a
    `certificate` and its `key`.
    """

    host: str
    authority: str | None = None
    token: str | None = None
    token_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True


def in_a_pod(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use the pod's service account: outside of pods there are kubeconfigs."""
    return _HOST in environ and not Path("~/.kube/config").expanduser().is_file()


def of_account(account: Path = ACCOUNT, environ: Mapping[str, str] = os.environ) -> Access:
    """Return the access of the pod that this process runs in; raise `Unconfigured` if it has none."""
    host, port = environ.get(_HOST, ""), environ.get(_PORT, "443")
    token, authority = account / "token", account / "ca.crt"
    missing = [str(path) for path in (token, authority) if not path.is_file()]
    if not host or missing:
        reason = f"there is no {' and no '.join(missing)}" if host else f"{_HOST} is not set"
        raise Unconfigured(
            f"the service account of this pod cannot be used: {reason}; mount its token"
            " (automountServiceAccountToken), or name a kubeconfig"
        )
    place = f"[{host}]" if ":" in host else host
    return Access(f"https://{place}:{port}", authority=str(authority), token_file=str(token))
