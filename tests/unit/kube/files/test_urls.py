"""Files behind URLs, and URLs that cannot be read."""

import ssl
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from certs import authority
from numalign.kube.files import urls
from numalign.kube.files.urls import BadUrl
from tests.worlds.notation import table
from tests.worlds.web_files import Answer, sends, serving

POD = b"{apiVersion: v1, kind: Pod, metadata: {name: a}}"


@pytest.mark.parametrize(("answer", "message"), table([
    # what it shows                answer                                     message
    ("nothing is there",           sends(b"", 404),                           "answered 404 Not Found"),
    ("it leads to http",           sends(b"", 302, Location="http://a/b"),    "redirects to http://a/b, and"),
    ("it leads to a file",         sends(b"", 302, Location="file:///etc"),   "file:///etc"),
    ("it has too much",            sends(b"a" * (urls.MOST_BYTES + 1)),       "it has more than 16,777,216"),
]))  # fmt: skip
def test_unreadable_urls(answer: Answer, message: str) -> None:
    with serving(answer) as url, pytest.raises(BadUrl) as raised:
        urls.read(f"{url}/pod.yaml")
    [mistake] = raised.value.mistakes
    assert mistake.where == f"{url}/pod.yaml"
    assert message in mistake.message


def test_a_slow_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "SECONDS", 0.2)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while time.monotonic() < until:
            try:
                handler.wfile.write(b"a")
            except OSError:
                return
            time.sleep(0.01)

    until = time.monotonic() + 10
    with serving(drip) as url, pytest.raises(BadUrl, match=r"it takes more than 0\.2 s"):
        urls.read(url)
    assert time.monotonic() < until


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_SILENCE", 0.1)
    gone = threading.Event()

    def nothing(_handler: BaseHTTPRequestHandler) -> None:
        gone.wait(10)

    with serving(nothing) as url:
        with pytest.raises(BadUrl, match=f"^{url}: cannot be read: "):
            urls.read(url)
        gone.set()


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1:1/a", "http://[::1", "http://a\nb/", "https://"])
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(BadUrl, match="cannot be read") as raised:
        urls.read(url)
    assert "secret" not in str(raised.value)


def test_a_redirect_to_https_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = authority.write(authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC)), tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))
    with serving(sends(POD), context) as safe, serving(sends(b"", 302, Location=f"{safe}/pod.yaml")) as url:
        assert urls.read(url) == POD


@pytest.mark.parametrize(("name", "expected"), [("https://a", True), ("HTTP://a", True), ("ftp://a", False)])
def test_urls_and_files(name: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert urls.is_url(name) is expected
