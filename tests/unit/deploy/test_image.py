"""The Dockerfile fits pyproject.toml, its list of ignored files, and the pods that run its images."""

import re
import tomllib

import pytest

from tools.generate.manifests import DEPLOY, Installation, everything

ROOT = DEPLOY.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS = PROJECT["project"]["scripts"]
STAGES: dict[str, dict[str, None]] = {
    stage.split("\n", 1)[0].rpartition(" ")[2]: dict.fromkeys(stage.splitlines())
    for stage in re.split(r"^FROM ", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
}
"""The lines of each stage by its name."""


def instruction(stage: str, verb: str) -> str:
    [line] = [line for line in STAGES[stage] if line.startswith(f"{verb} ")]
    return line.removeprefix(f"{verb} ")


def test_stages_share_one_pinned_base_of_the_oldest_python() -> None:
    """The requirements have hashes of wheels for it."""
    bases = [next(iter(lines)) for lines in STAGES.values()]
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert re.fullmatch(rf"python:{oldest}\.\d+-slim-[a-z]+@sha256:[0-9a-f]{{64}} AS python", bases[0])
    assert {base.split()[0] for base in bases[1:]} == {"python"}
    assert [*STAGES][-1] == "webhook"


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = {
        source
        for lines in STAGES.values()
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert [source for source in copied if not (ROOT / source).exists() or f"!{source}" not in ignore] == []
    assert copied >= {*PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}


@pytest.mark.parametrize("stage", ["webhook", "agent"])
def test_image_runs_its_program_unprivileged(stage: str) -> None:
    assert instruction(stage, "USER") == "65532:65532"
    assert instruction(stage, "ENTRYPOINT") == f'["/opt/numalign/bin/numalign-{stage}"]'
    assert f"numalign-{stage}" in SCRIPTS
    assert {line.partition(" ")[0] for line in STAGES[stage]}.isdisjoint({"RUN", "CMD", "SHELL", "ADD"})


def test_webhook_image_fits_the_pods_that_run_it() -> None:
    installation = Installation(everything())
    for name in ("numalign-controller", "numalign-scorer"):
        assert installation.container(name)["command"] == [f"/opt/numalign/bin/{name}"]
        assert name in SCRIPTS
    pod = installation.pod("numalign-webhook")
    context = pod["securityContext"]
    assert instruction("webhook", "USER") == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert int(instruction("webhook", "EXPOSE")) == pod["containers"][0]["ports"][0]["containerPort"]
