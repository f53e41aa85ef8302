"""
Which API server is called, and as which user: a kubeconfig, and flags that override it.

The fields are kubectl's own flags, and mean the same. Nothing is opened here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from numalign.model.errors import BadInput, Mistake


@dataclass(frozen=True, slots=True)
class Connection:
    """A kubeconfig and its overrides; fields that are None are as in the kubeconfig.

    `kubeconfig` None is the one that kubectl would use, and `context` None its current one. `server` is the
    URL of the API server, `token` a bearer token that replaces all other credentials, `user` and `groups` are
    impersonated. A request may take `request_timeout` seconds; None means as long as data arrives.
    `certificate_authority` is the file of the CA of the server's certificate, which is not verified if
    `insecure` is set.

    Raises `BadInput` with all errors at once.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    groups: tuple[str, ...] = ()
    request_timeout: float | None = None
    certificate_authority: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if mistakes := [*self._mistakes()]:
            raise BadInput(mistakes)

    def _mistakes(self) -> Iterator[Mistake]:
        if self.server is not None and not _is_address(self.server):
            yield Mistake("--server", f'"{self.server}" is not a valid address: use https://HOST:PORT')
        if self.token is not None and not (self.token and self.token.isascii() and self.token.isprintable()):
            yield Mistake("--token", "is empty or contains characters that a token cannot have")
        if self.groups and not self.user:
            yield Mistake("--as-group", "groups can be impersonated only together with a user: add --as")
        for option, name in (("--as", self.user), *(("--as-group", group) for group in self.groups)):
            if name is not None and not (name and name.isprintable()):
                yield Mistake(option, f"{name!r} is not a valid name")
        if self.certificate_authority and self.insecure:
            words = "cannot be combined with --insecure-skip-tls-verify: remove one of them"
            yield Mistake("--certificate-authority", words)

    @property
    def named(self) -> bool:
        """Whether a cluster is named explicitly."""
        return bool(self.kubeconfig or self.context or self.server)

    @property
    def calls(self) -> tuple[str, ...]:
        """The given flags that say how an API server is called, not which one."""
        given = (
            ("--server", self.server),
            ("--token", self.token),
            ("--as-group", self.groups),
            ("--request-timeout", self.request_timeout),
            ("--certificate-authority", self.certificate_authority),
            ("--insecure-skip-tls-verify", self.insecure),
        )
        return tuple(flag for flag, value in given if value)

    @property
    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """The headers for impersonation."""
        user = (("Impersonate-User", self.user),) if self.user else ()
        return (*user, *(("Impersonate-Group", group) for group in self.groups))


FROM_KUBECONFIG = Connection()
"""What kubectl would use without any flag."""


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
