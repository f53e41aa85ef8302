"""Where an API server is: from the account of a pod, or from a kubeconfig."""

from pathlib import Path

import pytest

from numalign.kube import access, client
from numalign.kube.access import Access
from numalign.kube.connection import Connection
from numalign.kube.errors import Unconfigured
from tools.clusters.fake_api import FakeApi

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What a pod has mounted."""
    made = tmp_path / "account"
    made.mkdir()
    (made / "ca.crt").write_text("an authority")
    (made / "token").write_text("let-me-in")
    return made


def test_a_pod_is_told_by_its_environment_and_its_account(account: Path) -> None:
    assert access.of_account(account, INSIDE) == Access(
        "https://10.0.0.1:6443", authority=str(account / "ca.crt"), token_file=str(account / "token")
    )


def test_an_address_of_ipv6_stands_in_brackets(account: Path) -> None:
    found = access.of_account(account, {"KUBERNETES_SERVICE_HOST": "fd00::1"})

    assert found.host == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_account_that_is_not_mounted_as_a_whole_is_told(account: Path, missing: str) -> None:
    (account / missing).unlink()

    with pytest.raises(Unconfigured, match=f"there is no .*/{missing}; mount its token"):
        access.of_account(account, INSIDE)


def test_outside_of_a_pod_the_variable_that_is_missing_is_named(account: Path) -> None:
    with pytest.raises(Unconfigured, match="KUBERNETES_SERVICE_HOST is not set"):
        access.of_account(account, {})


def test_a_kubeconfig_at_home_counts_before_the_account_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (access.in_a_pod(INSIDE), access.in_a_pod({})) == (True, False)

    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}")
    assert not access.in_a_pod(INSIDE)


async def test_a_kubeconfig_is_read_down_to_its_token(tmp_path: Path) -> None:
    api = FakeApi(url="https://api.example:6443", token="let-me-in")  # noqa: S106  of no server
    path = api.kubeconfig(tmp_path / "kubeconfig")

    found = await client.access(Connection(str(path)))

    assert (found.host, found.token, found.verify) == ("https://api.example:6443", "let-me-in", True)


async def test_a_kubeconfig_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig at"):
        await client.access(Connection(str(tmp_path / "nothing")))
