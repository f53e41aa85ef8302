"""An operator is built once with what its module ships, and its webhooks are called on this machine."""

from base64 import b64encode
from pathlib import Path

import pytest

from harness import operators
from harness.gotools import UnavailableError, Workshop
from harness.operators import Operator

MODULE = "example.com/operator"
SHIPPED = {"role.yaml": "config/role.yaml", "chart": "charts/operator"}
PORT = 25_000


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Operator:
    """One of release v1.2.3; its cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "go.mod").write_text(f"module ours\n\nrequire {MODULE} v1.2.3\n")
    return Operator(Workshop("operator", tmp_path), MODULE, f"{MODULE}/cmd", SHIPPED)


def module(folder: Path) -> Path:
    """Its source, read-only as Go keeps it."""
    for shipped in ("config/role.yaml", "charts/operator/Chart.yaml", "charts/operator/templates/all.yaml"):
        (folder / shipped).parent.mkdir(parents=True, exist_ok=True)
        (folder / shipped).touch(mode=0o444)
    return folder


def make(program: Path) -> None:
    """An empty one."""
    program.parent.mkdir()
    program.touch()


async def test_program_and_files_lie_in_one_folder(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages: list[str] = []

    async def compile_at_once(_: Workshop, _go: str, package: str, *, into: Path) -> None:
        packages.append(package)
        make(into)

    monkeypatch.setattr(Workshop, "compiler", lambda _, *, otherwise: "go" if otherwise else "")
    monkeypatch.setattr(Workshop, "compile", compile_at_once)
    monkeypatch.setattr(Operator, "source", lambda *_: module(tmp_path / "module"))

    [folder] = await operator.find()

    assert await operator.find() == [folder]
    assert packages == [f"{MODULE}/cmd"]
    assert folder == operator.shop.cache("v1.2.3")
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        "operator",
        "role.yaml",
        "chart/Chart.yaml",
        "chart/templates/all.yaml",
    }


async def test_without_go_it_is_said_where_it_would_be(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=f"install Go to build it; not at {operator.shop.cache()}"):
        await operator.find()


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """The certificate of an authority."""
    (tmp_path / "ca.crt").write_bytes(b"certificate")
    return tmp_path / "ca.crt"


BUNDLE = b64encode(b"certificate").decode()


def test_admission_is_asked_of_a_port_of_this_machine(ca: Path) -> None:
    service = {"service": {"name": "operator", "path": "/mutate"}}

    moved = operators.called(
        {"kind": "Hooks", "webhooks": [{"name": "one", "clientConfig": service}]}, PORT, ca
    )

    here = {"url": f"https://127.0.0.1:{PORT}/mutate", "caBundle": BUNDLE}
    assert moved == {"kind": "Hooks", "webhooks": [{"name": "one", "clientConfig": here}]}


def test_conversion_is_asked_of_a_port_of_this_machine(ca: Path) -> None:
    webhook = {"clientConfig": {"service": {"path": "/convert"}}, "conversionReviewVersions": ["v1"]}
    definition = {"spec": {"group": "example.com", "conversion": {"strategy": "Webhook", "webhook": webhook}}}

    moved = operators.called(definition, PORT, ca)["spec"]

    here = {"url": f"https://127.0.0.1:{PORT}/convert", "caBundle": BUNDLE}
    assert moved["group"] == "example.com"
    assert moved["conversion"]["webhook"] == {**webhook, "clientConfig": here}


@pytest.mark.parametrize("document", [{"kind": "Role"}, {"spec": {"conversion": {"strategy": "None"}}}])
def test_other_objects_stay_as_they_are(document: dict[str, object], ca: Path) -> None:
    assert operators.called(document, PORT, ca) is document
