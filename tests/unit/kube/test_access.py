"""Where an API server is: from the account of a pod, or from a kubeconfig."""

from pathlib import Path

import pytest

from numalign.kube import access
from numalign.kube.access import Access
from numalign.kube.errors import Unconfigured

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    made = tmp_path / "account"
    made.mkdir()
    (made / "ca.crt").write_text("an authority")
    (made / "token").write_text("let-me-in")
    return made


def test_access_of_a_pod(account: Path) -> None:
    assert access.of_account(account, INSIDE) == Access(
        "https://10.0.0.1:6443", authority=str(account / "ca.crt"), token_file=str(account / "token")
    )


def test_an_ipv6_address_has_brackets(account: Path) -> None:
    access_ = access.of_account(account, {"KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert access_.host == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_incomplete_account_is_an_error(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(Unconfigured, match=f"there is no .*/{missing}; mount its token"):
        access.of_account(account, INSIDE)


def test_a_missing_variable_is_named(account: Path) -> None:
    with pytest.raises(Unconfigured, match="KUBERNETES_SERVICE_HOST is not set"):
        access.of_account(account, {})


def test_a_kubeconfig_comes_before_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (access.in_a_pod(INSIDE), access.in_a_pod({})) == (True, False)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}")
    assert not access.in_a_pod(INSIDE)
