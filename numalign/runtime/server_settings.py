"""
The settings of programs that serve, and of those that answer calls.

Mix-ins for a program's settings: its shutdown and debugging; its address, certificate and limits.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from numalign.runtime.in_flight import Limits
from numalign.runtime.settings import BIND, METRICS_PORT, Contradiction, ListenAddress, ProcessSettings
from numalign.runtime.tls import PairFiles

PORT = "port"  # The name of the port for calls, which opens after that for health and metrics.
MIB = 1024**2

_ENDPOINT = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


def _endpoint(text: str) -> str:
    if not _ENDPOINT.fullmatch(text):
        raise ValueError("must be the URL of a collector, such as http://collector:4318")
    return text


OtlpEndpoint = Annotated[str, AfterValidator(_endpoint)]


@dataclass(frozen=True, slots=True)
class CallsPort:
    """Where calls are answered: in plain HTTP without a `pair`, whose files are checked now and then."""

    address: ListenAddress
    pair: PairFiles | None = None
    client_ca: Path | None = None
    reload_seconds: float = 0


class ServingSettings(ProcessSettings):
    """Shutdown, debugging and tracing."""

    drain_seconds: float = Field(
        default=10.0,
        ge=0,
        le=600,
        description="Seconds to keep serving after SIGTERM while reporting not ready. 0 exits at once. The"
        " default gives API servers time to notice that the endpoint is gone.",
    )
    debug_state: bool = Field(
        default=False,
        description="Serve GET /debug/state on the metrics port: the state of this process as JSON, for"
        " debugging. It contains names of nodes and namespaces.",
    )
    otlp_endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="OTLP endpoint (HTTP) to send traces to, such as http://collector:4318; /v1/traces is"
        " appended. Spans contain names of pods and other objects, but nothing else that tenants write. By"
        " default tracing is off and its library is not loaded.",
    )
    trace_ratio: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Fraction of calls without a trace context, and of writes outside a call, to trace. A"
        " call with a trace context is traced if its caller sampled it.",
    )

    @property
    def calls_port(self) -> CallsPort | None:
        """Where calls are answered; None if the program answers none."""
        return None


class ServerSettings(ServingSettings):
    """Server and its limits."""

    port: int = Field(
        default=8443,
        ge=0,
        le=65535,
        description="Port for calls, over TLS. With 0, any free port is used; the log event server.listening"
        " shows which one. The default requires no privileges.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="PEM file with the serving certificate, followed by its intermediate certificates.",
    )
    tls_key: Path | None = Field(
        default=None, description="PEM file with the private key of the certificate, without a passphrase."
    )
    tls_reload_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How often, in seconds, to check whether the certificate files have changed; 0 disables"
        " the check. The kubelet takes about a minute to update a mounted Secret, so the default adds"
        " little.",
    )
    insecure_http: bool = Field(
        default=False,
        description="Serve plain HTTP instead of TLS. Only for local tests: API servers call webhooks over"
        " TLS.",
    )
    client_ca: Path | None = Field(
        default=None,
        description="PEM file with the CA bundle for client certificates. A quarter of the capacity is"
        " reserved for clients with a valid certificate, and their calls are handled first. Clients without"
        " a certificate are accepted; certificates of other authorities are rejected. By default no"
        " certificate is requested.",
    )
    max_in_flight: int = Field(
        default=512,
        ge=0,
        description="Maximum number of concurrent calls; further calls get 503 with Retry-After: 1. A single"
        " peer can use at most three quarters. 0 means no limit.",
    )
    max_bytes_in_flight: int = Field(
        default=32 * MIB,
        ge=0,
        description="Maximum total size of the bodies of all calls in bytes, counted as they arrive; further"
        " calls get 503 with Retry-After: 1. A single body may be larger. 0 means no limit. The default is"
        " 32 MiB.",
    )
    max_body_bytes: int = Field(
        default=20 * MIB,
        ge=1,
        description="Maximum size of a request body in bytes; larger bodies get 413, as do bodies of more"
        " than 4 MiB with more than 1,200,000 commas and brackets, because they take most memory. Large"
        " bodies are handled one at a time. The default is 20 MiB: JSON takes up to six times the 1.5 MiB"
        " that etcd stores, and a review can contain the old object too.",
    )
    max_connections: int = Field(
        default=1024,
        ge=0,
        description="Maximum number of open connections. A further one is accepted, and an idle one is"
        " closed: of the peer with the most connections in relation to its answered calls. 0 means no limit."
        " A TLS connection takes 50 KB or more.",
    )

    @property
    def calls_port(self) -> CallsPort | None:
        """Where calls are answered."""
        address = ListenAddress(self.bind, self.port, BIND, PORT)
        return CallsPort(address, self.pair, self.client_ca, self.tls_reload_seconds)

    most_values: ClassVar[int] = 0

    @property
    def pair(self) -> PairFiles | None:
        """The serving certificate; None for plain HTTP."""
        return PairFiles(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None

    @property
    def limits(self) -> Limits:
        """The limits; with a client CA, a part of them is reserved for callers with a certificate."""
        return Limits(
            calls=self.max_in_flight,
            bytes=self.max_bytes_in_flight,
            body=self.max_body_bytes,
            values=self.most_values,
            connections=self.max_connections,
            reserve=self.client_ca is not None,
        )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield contradictions between ports, and between TLS, plain HTTP and client certificates."""
        yield from super().contradictions()
        if self.port and self.port == self.metrics_port:
            yield Contradiction((PORT, METRICS_PORT), "must be different ports")
        if self.client_ca and self.insecure_http:
            yield Contradiction(
                ("client_ca", "insecure_http"), "client certificates require TLS: remove one of them"
            )
        names = ("tls_cert", "tls_key", "insecure_http")
        pair = (self.tls_cert is not None, self.tls_key is not None)
        if self.insecure_http and any(pair):
            yield Contradiction(names, "plain HTTP and a certificate cannot be combined: remove one of them")
        elif not self.insecure_http and not all(pair):
            missing = {
                (False, False): "set --tls-cert and --tls-key, or --insecure-http for local tests",
                (True, False): "--tls-cert requires --tls-key",
                (False, True): "--tls-key requires --tls-cert",
            }
            yield Contradiction(names, missing[pair])
