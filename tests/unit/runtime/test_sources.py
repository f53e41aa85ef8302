"""Where settings are written: each source alone, each mistake at its place."""

from errno import EISDIR, ENOENT
from os import strerror
from pathlib import Path

import pytest

from numalign.runtime import sources
from tests.worlds.notation import table

NAMES = ("port", "tls_cert", "insecure_http")
RENAMED = {"certificate": "tls_cert"}


def texts(reading: sources.Reading) -> dict[str, str]:
    return {name: written.text for name, written in reading.values.items()}


def complaints(reading: sources.Reading) -> list[str]:
    return [str(mistake) for mistake in reading.mistakes]


@pytest.mark.parametrize(("argv", "expected"), table([
    ("a value as the next word", ["--port", "1"], {"port": "1"}),
    ("a value after =", ["--port=1"], {"port": "1"}),
    ("a switch alone", ["--insecure-http"], {"insecure_http": "true"}),
    ("a switch turned off", ["--insecure-http=false"], {"insecure_http": "false"}),
    ("the last of two counts", ["--port", "1", "--port", "2"], {"port": "2"}),
    ("a negative number", ["--port", "-1"], {"port": "-1"}),
    ("a missing value is empty", ["--port", "--insecure-http"], {"port": "", "insecure_http": "true"}),
    ("the file's name", ["--config", "f.yaml"], {"config": "f.yaml"}),
]))  # fmt: skip
def test_flags(argv: list[str], expected: dict[str, str]) -> None:
    reading = sources.flags(argv, names=NAMES, switches={"insecure_http"}, renamed=RENAMED)
    assert texts(reading) == expected
    assert complaints(reading) == []


@pytest.mark.parametrize(("argv", "expected"), table([
    ("a near miss", ["--prot", "1"], ["flag --prot: is not known; did you mean --port?"]),
    ("its value is no second mistake", ["--prot=1"], ["flag --prot: is not known; did you mean --port?"]),
    ("an old name", ["--certificate", "x"], ["flag --certificate: was renamed: use --tls-cert"]),
    ("no abbreviations", ["--tls", "x"], ["flag --tls: is not known"]),
    ("a stray word", ["x"], ['argument "x": is unexpected: settings are written as --name']),
    ("a value after a flag with =", ["--prot=1", "x"],
     ["flag --prot: is not known; did you mean --port?",
      'argument "x": is unexpected: settings are written as --name']),
    ("a question with a value", ["--help=me"], ["flag --help: takes no value"]),
    ("a short question with a value", ["-hm"], ["flag --help: takes no value"]),
    ("a question of the program with a value", ["--print-config=x"], ["flag --print-config: takes no value"]),
]))  # fmt: skip
def test_wrong_flags(argv: list[str], expected: list[str]) -> None:
    assert complaints(sources.flags(argv, names=NAMES, switches=(), renamed=RENAMED)) == expected


@pytest.mark.parametrize(("environ", "expected", "wrong"), table([
    ("one of ours", {"NUMALIGN_TLS_CERT": "c"}, {"tls_cert": "c"}, []),
    ("empty counts as not set", {"NUMALIGN_PORT": ""}, {}, []),
    ("the file's name", {"NUMALIGN_CONFIG": "f"}, {"config": "f"}, []),
    ("another program's", {"NUMALIGN_LEASE_SECONDS": "9"}, {}, []),
    ("a Service called numalign, as the kubelet tells",
     {"NUMALIGN_PORT": "tcp://10.0.0.1:443", "NUMALIGN_SERVICE_HOST": "10.0.0.1",
      "NUMALIGN_SERVICE_PORT": "443", "NUMALIGN_PORT_443_TCP": "tcp://10.0.0.1:443",
      "NUMALIGN_PORT_443_TCP_ADDR": "10.0.0.1", "NUMALIGN_PORT_443_TCP_PORT": "443"}, {}, []),
    ("a near miss", {"NUMALIGN_TLS_CRT": "c"}, {},
     ["environment NUMALIGN_TLS_CRT: is not known; did you mean NUMALIGN_TLS_CERT?"]),
    ("an old name", {"NUMALIGN_CERTIFICATE": "c"}, {},
     ["environment NUMALIGN_CERTIFICATE: was renamed: use NUMALIGN_TLS_CERT"]),
    ("lower case is not ours", {"numalign_port": "1"}, {}, []),
]))  # fmt: skip
def test_environment(environ: dict[str, str], expected: dict[str, str], wrong: list[str]) -> None:
    reading = sources.environment(environ, names=NAMES, renamed=RENAMED)
    assert texts(reading) == expected
    assert complaints(reading) == wrong


@pytest.mark.parametrize(("text", "expected"), table([
    ("only a comment", "# nothing\n", {}),
    ("YAML guesses no number", "port: 0755", {"port": "0755"}),
    ("YAML guesses no truth", "insecure_http: on", {"insecure_http": "on"}),
    ("quotes", "tls_cert: 'a: b'", {"tls_cert": "a: b"}),
    ("null is not set", "port: null\ntls_cert:\n", {}),
    ("the word null in quotes is text", "tls_cert: 'null'", {"tls_cert": "null"}),
    ("JSON is YAML", '{"port": 1}', {"port": "1"}),
]))  # fmt: skip
def test_file(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    reading = sources.file(path, names=NAMES, renamed=RENAMED)
    assert texts(reading) == expected
    assert complaints(reading) == []


@pytest.mark.parametrize(("content", "expected"), table([
    ("a near miss", b"\n\nprot: 1", " line 3: prot: is not known; did you mean port?"),
    ("an old name", b"certificate: c", " line 1: certificate: was renamed: use tls_cert"),
    ("the file in the file", b"config: c", " line 1: config: is not known"),
    ("twice", b"port: 1\nport: 2", " line 2: port: is set twice"),
    ("a list", b"port: [1, 2]", " line 1: port: must be a single value, not a list or a mapping"),
    ("a key that is no text", b"[a]: 1", " line 1: a list or mapping as a key: is not known"),
    ("a list of settings", b"- port: 1", ": is not a mapping: write one `name: value` per line"),
    ("not YAML", b"port: [", ": is not YAML: "),
    ("two documents", b"a: 1\n---\nb: 2", ": is not YAML: "),
    ("not UTF-8", b"port: \xff", ": is not UTF-8 text"),
    ("a byte that text never has", b"port: \x00", ": is not YAML: "),
    ("nested very deep", b"port: " + b"[" * 100_000, ": is nested deeper than 100 levels"),
    ("nested deep", b"port: " + b"[" * 99 + b"]" * 99, " line 1: port: must be a single value"),
]))  # fmt: skip
def test_wrong_file(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    reading = sources.file(path, names=NAMES, renamed=RENAMED)
    assert len(reading.mistakes) == 1
    assert str(reading.mistakes[0]).startswith(f"file {path}{expected}")
    assert texts(reading) in ({}, {"port": "1"})


@pytest.mark.parametrize(
    ("name", "error"), [("missing.yaml", ENOENT), ("", EISDIR)], ids=["missing", "a folder"]
)
def test_file_that_cannot_be_read(tmp_path: Path, name: str, error: int) -> None:
    path, why = tmp_path / name, strerror(error)
    found = complaints(sources.file(path, names=NAMES, renamed=RENAMED))
    assert found == [f"file {path}: cannot be read: {why}"]
