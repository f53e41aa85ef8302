"""Which API server is asked, and as whom."""

import pytest

from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.model.errors import BadInput
from tests.worlds.notation import table


@pytest.mark.parametrize(("flags", "option"), table([
    # what it shows                    flags                                                the wrong flag
    ("a server without a scheme",      {"server": "10.0.0.1:6443"},                         "--server"),
    ("a server of another scheme",     {"server": "ftp://api.example"},                     "--server"),
    ("a server without a host",        {"server": "https://:6443"},                         "--server"),
    ("a server with no such port",     {"server": "https://api:port"},                      "--server"),
    ("an empty token",                 {"token": ""},                                       "--token"),
    ("a token of two lines",           {"token": "a\nX-Other: b"},                          "--token"),
    ("a token that is not ASCII",      {"token": "\N{SNOWMAN}"},                            "--token"),
    ("an empty user",                  {"user": ""},                                        "--as"),
    ("a user of two lines",            {"user": "jane\r\nX-Other: b"},                      "--as"),
    ("a group without a user",         {"groups": ("dev",)},                                "--as-group"),
    ("an empty group",                 {"user": "jane", "groups": ("dev", "")},             "--as-group"),
    ("an authority without verification", {"certificate_authority": "ca", "insecure": True},
     "--certificate-authority"),
]))  # fmt: skip
def test_mistakes_name_their_flag(flags: dict[str, object], option: str) -> None:
    with pytest.raises(BadInput) as raised:
        Connection(**flags)  # type: ignore[arg-type]
    assert [mistake.where for mistake in raised.value.mistakes] == [option]


def test_all_mistakes_are_raised_together() -> None:
    with pytest.raises(BadInput) as raised:
        Connection(server="api", token="", groups=("dev",))
    assert [mistake.where for mistake in raised.value.mistakes] == ["--server", "--token", "--as-group"]


def test_connections_that_name_a_cluster() -> None:
    naming = Connection("kubeconfig"), Connection(context="other"), Connection(server="https://api.example")
    assert all(connection.named for connection in naming)
    assert not FROM_KUBECONFIG.named
    assert not Connection(token="secret", user="jane").named  # noqa: S106 - of no server


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(Connection(token="secret"))  # noqa: S106 - of no server
