"""The settings of the map."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from pydantic import Field

from numalign.map.access import REVIEW_SECONDS
from numalign.runtime.server_settings import CallsPort, ServingSettings
from numalign.runtime.settings import Contradiction, ListenAddress
from numalign.runtime.tls import PairFiles

RELOAD_SECONDS = 10.0
"""Interval in seconds at which to check for a new certificate, as in programs that answer API servers."""


class MapSettings(ServingSettings):
    """The map."""

    map: bool = Field(
        default=False,
        description=(
            "Serve the map of the cluster to browsers on a separate port. Users sign in with their own"
            " token. Off by default, because it makes the controller watch pods."
        ),
    )
    map_port: int = Field(
        default=8081,
        ge=0,
        le=65535,
        description=(
            "Port of the map. With 0, any free port is used; the log event server.listening shows which one."
        ),
    )
    map_bind: str = Field(
        default="127.0.0.1",
        description=(
            "Address on which to serve the map, or * for all. The default is reachable by kubectl"
            " port-forward only, and so by every user who may forward ports of this pod."
        ),
    )
    map_tls_cert: Path | None = Field(
        default=None,
        description=(
            "PEM file with the map's serving certificate, followed by its intermediate certificates."
        ),
    )
    map_tls_key: Path | None = Field(
        default=None,
        description="PEM file with the private key of that certificate, without a passphrase.",
    )
    map_plain_http: bool = Field(
        default=False,
        description=(
            "Allow plain HTTP on addresses other than loopback, for an Ingress that terminates TLS."
            " Tokens of users then cross the network unencrypted."
        ),
    )
    map_audience: str = Field(
        default="",
        max_length=253,
        description=(
            "Audience for which tokens must be issued (kubectl create token NAME --audience ...), so that"
            " a token for the map is of no use elsewhere. By default the API server's audience."
        ),
    )
    map_review_seconds: float = Field(
        default=REVIEW_SECONDS,
        ge=1,
        le=600,
        description=(
            "How long, in seconds, to cache what the API server answered about a token and the"
            " permissions of its user."
        ),
    )

    @property
    def calls_port(self) -> CallsPort | None:
        """Return where the map is served."""
        if not self.map:
            return None
        address = ListenAddress(self.map_bind, self.map_port, "map_bind", "map_port")
        pair = (
            PairFiles(self.map_tls_cert, self.map_tls_key) if self.map_tls_cert and self.map_tls_key else None
        )
        return CallsPort(address, pair, reload_seconds=RELOAD_SECONDS)

    def contradictions(self) -> Iterator[Contradiction]:
        """Check for different ports, a complete pair, and no plain HTTP unless on loopback or allowed."""
        yield from super().contradictions()
        if self.map and self.map_port and self.map_port == self.metrics_port:
            yield Contradiction(("map_port", "metrics_port"), "must be different ports")
        pair = (self.map_tls_cert is not None, self.map_tls_key is not None)
        both = ("map_tls_cert", "map_tls_key")
        if any(pair) and not all(pair):
            yield Contradiction(both, "must be set together")
        if any(pair) and self.map_plain_http:
            excluded = "plain HTTP and a certificate cannot be combined: remove one of them"
            yield Contradiction((*both, "map_plain_http"), excluded)
        if self.map and not any(pair) and not self.map_plain_http and not _is_loopback(self.map_bind):
            yield Contradiction(
                ("map_bind", "map_tls_cert", "map_plain_http"),
                (
                    "tokens would cross the network unencrypted: set --map-tls-cert and --map-tls-key, or"
                    " --map-plain-http if a proxy in front terminates TLS"
                ),
            )


def _is_loopback(bind: str) -> bool:
    try:
        return ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"
