"""What tests start their programs with."""

from tools.clusters.processes import PORTS, free_port


def test_no_port_is_given_twice() -> None:
    given = [free_port() for _ in range(200)]

    assert len({*given}) == len(given)
    assert {*given} <= {*PORTS}
