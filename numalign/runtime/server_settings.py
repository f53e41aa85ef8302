"""
What programs that serve can be told, and what those that answer calls can.

Mix-ins for a program's settings: how it ends and what it shows; where it answers, with which certificate, and
how much it takes on at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from numalign.runtime.limits import Limits
from numalign.runtime.process_settings import BIND, METRICS_PORT, ListenAddress, ProcessSettings
from numalign.runtime.settings import Contradiction
from numalign.runtime.tls import PairFiles

PORT = "port"
"""The name of the port for calls, which opens after that for health and metrics."""

MIB = 1024**2

_ENDPOINT = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


def _endpoint(text: str) -> str:
    if not _ENDPOINT.fullmatch(text):
        raise ValueError("give the address of a receiver, as http://collector:4318")
    return text


OtlpEndpoint = Annotated[str, AfterValidator(_endpoint)]


@dataclass(frozen=True, slots=True)
class CallsPort:
    """Where calls are answered, and with which certificate; without a `pair` in plain HTTP.

    Whether the pair's files have changed is looked at every `reload_seconds`; 0 never does.
    """

    address: ListenAddress
    pair: PairFiles | None = None
    client_ca: Path | None = None
    reload_seconds: float = 0


class ServingSettings(ProcessSettings):
    """The service."""

    drain_seconds: float = Field(
        default=10.0,
        ge=0,
        le=600,
        description="How long, in seconds, to go on serving as not ready after SIGTERM; 0 ends at once."
        " Ten give every API server time to learn that this endpoint is gone.",
    )
    debug_state: bool = Field(
        default=False,
        description=(
            "Serve GET /debug/state on the metrics port: the state of this process as JSON, for"
            " debugging. It contains names of nodes and namespaces."
        ),
    )
    otlp_endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="Where to send traces by OTLP over HTTP, as http://collector:4318; /v1/traces is added."
        " Spans of calls and of writes have names of pods and other objects, and nothing else that tenants"
        " write. By default there are none, and no library for them is loaded.",
    )
    trace_ratio: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Of calls that come without a trace, and of writes outside any call, the share that is"
        " traced. Calls of an API server that traces are traced when it says so.",
    )

    @property
    def calls_port(self) -> CallsPort | None:
        """Where calls are answered; None where nobody calls."""
        return None


class ServerSettings(ServingSettings):
    """The server."""

    port: int = Field(
        default=8443,
        ge=0,
        le=65535,
        description="Port for calls, with TLS. 0 takes a free one and the log line server.listening tells"
        " which. The default needs no privilege.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="PEM file of the serving certificate, intermediates after it.",
    )
    tls_key: Path | None = Field(
        default=None,
        description="PEM file of the certificate's private key, without a passphrase.",
    )
    tls_reload_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How often, in seconds, to look whether the pair's files have changed; 0 never"
        " does. Kubernetes itself takes about a minute to renew a mounted secret, so 10 adds little.",
    )
    insecure_http: bool = Field(
        default=False,
        description=(
            "Serve plain HTTP instead of TLS. Only for local tests: API servers call webhooks over TLS."
        ),
    )
    client_ca: Path | None = Field(
        default=None,
        description=(
            "PEM file of the CA bundle for client certificates. A quarter of the capacity is kept"
            " for callers with a valid certificate, and their calls go first. Callers without a"
            " certificate are accepted; certificates of other authorities are rejected. By default"
            " no certificate is requested."
        ),
    )
    max_in_flight: int = Field(
        default=512,
        ge=0,
        description=(
            "Maximum concurrent calls; further calls get 503 with Retry-After: 1. A single peer"
            " gets at most three quarters. 0 means no limit."
        ),
    )
    max_bytes_in_flight: int = Field(
        default=16 * MIB,
        ge=0,
        description="Bytes that the bodies of all calls may have together, counted as they arrive; what is"
        " more is answered as above. One body alone may be longer. 0 sets no bound. The default is 16 MiB.",
    )
    max_body_bytes: int = Field(
        default=4 * MIB,
        ge=1,
        description="Bytes of the longest body; a longer one is answered 413. Parsed it takes up to 60 times"
        " as much memory, and one at a time is. The default is 4 MiB; an API server stores no object of 2.",
    )
    max_connections: int = Field(
        default=1024,
        ge=0,
        description=(
            "Maximum open connections. A further one is accepted, and the longest idle one of the"
            " peer with most connections is closed. 0 means no limit. With TLS each takes 50 KB"
            " and more."
        ),
    )

    @property
    def calls_port(self) -> CallsPort | None:
        """Where calls are answered."""
        address = ListenAddress(self.bind, self.port, BIND, PORT)
        return CallsPort(address, self.pair, self.client_ca, self.tls_reload_seconds)

    @property
    def pair(self) -> PairFiles | None:
        """The serving certificate; None for plain HTTP."""
        return PairFiles(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None

    @property
    def limits(self) -> Limits:
        """How much is taken on; something is kept for proven callers where there can be any."""
        return Limits(
            calls=self.max_in_flight,
            bytes=self.max_bytes_in_flight,
            body=self.max_body_bytes,
            connections=self.max_connections,
            reserve=self.client_ca is not None,
        )

    def contradictions(self) -> Iterator[Contradiction]:
        """Two ports; exactly one of a pair and plain HTTP; certificates only with TLS."""
        yield from super().contradictions()
        if self.port and self.port == self.metrics_port:
            yield Contradiction((PORT, METRICS_PORT), "one port cannot serve both: give each its own")
        if self.client_ca and self.insecure_http:
            yield Contradiction(
                ("client_ca", "insecure_http"), "in plain HTTP nobody shows a certificate: serve TLS"
            )
        names = ("tls_cert", "tls_key", "insecure_http")
        pair = (self.tls_cert is not None, self.tls_key is not None)
        if self.insecure_http and any(pair):
            yield Contradiction(names, "plain HTTP and a certificate exclude each other: keep one of them")
        elif not self.insecure_http and not all(pair):
            missing = {
                (False, False): "give --tls-cert and --tls-key, or --insecure-http on a laptop",
                (True, False): "--tls-cert needs its --tls-key",
                (False, True): "--tls-key needs its --tls-cert",
            }
            yield Contradiction(names, missing[pair])
