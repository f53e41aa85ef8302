"""What the end-to-end comparison is told, and what it is run on."""

import pytest

from tools.bench import e2e


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(["--runs", "stock,nobody"], "nobody: the runs are stock, webhook", id="a run"),
        pytest.param(["--pods", "0"], "0 is not above zero", id="no pods"),
        pytest.param(["--nodes", "some"], "some", id="not a number"),
        pytest.param(["--delays", "1,-1"], "below zero", id="topologies before their time"),
        pytest.param(["--seeds", "one"], "one", id="a seed"),
        pytest.param(["--delays", "1,agents"], "agents need real kubelets", id="agents with nothing to ask"),
        pytest.param(["--delays", "agents,later"], "later", id="neither seconds nor agents"),
        pytest.param(["--kubelets", "v1.2.3"], "v1.2.3", id="kubelets that cannot be had"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        e2e.main(flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
