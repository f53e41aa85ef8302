"""Images run as the pods of the chart say, and start the programs that the wheel has."""

import tomllib
from pathlib import Path

import pytest

from tools.generate.manifests import installed
from tools.release.image import recipes
from tools.release.image.errors import BuildError

WEBHOOK, AGENT = recipes.RECIPES
SCRIPTS = tomllib.loads((recipes.ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("recipe", recipes.RECIPES, ids=lambda recipe: recipe.name)
def test_an_image_starts_its_program_as_nobody(recipe: recipes.Recipe) -> None:
    settings = recipes.settings(recipe, "1.2.3")

    assert settings["Entrypoint"] == [f"/opt/numalign/bin/{recipe.name}"]
    assert recipe.name in SCRIPTS
    assert settings["User"] == "65532:65532"
    assert settings["Labels"]["org.opencontainers.image.version"] == "1.2.3"
    assert recipe.requirements.is_file()


def test_the_image_and_the_pod_agree_on_who_runs_it_and_where_it_listens() -> None:
    pod = installed(".").pod("numalign-webhook")
    settings = recipes.settings(WEBHOOK, "1.2.3")

    context, [port, *_] = pod["securityContext"], pod["containers"][0]["ports"]
    assert settings["User"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert list(settings["ExposedPorts"]) == [f"{port['containerPort']}/tcp"]
    assert "ExposedPorts" not in recipes.settings(AGENT, "1.2.3")


def test_the_dockerfile_and_the_archive_give_programs_the_same_surroundings() -> None:
    dockerfile = (recipes.ROOT / "deploy" / "Dockerfile").read_text()
    settings = recipes.settings(WEBHOOK, "1.2.3")

    environment = dict(each.split("=", 1) for each in settings["Env"])
    for name in ("HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        assert f"{name}={environment[name]}" in dockerfile
    assert f"ENTRYPOINT {settings['Entrypoint']}".replace("'", '"') in dockerfile


def test_the_version_is_that_of_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "numalign-0.1.0-py3-none-any.whl"
    wheel.touch()
    assert recipes.version(wheel) == "0.1.0"
    for other in (tmp_path / "numpy-2.4.6-cp311-linux_x86_64.whl", tmp_path / "numalign-9-py3-none-any.whl"):
        with pytest.raises(BuildError, match=f"{other.name} is not a numalign wheel"):
            recipes.version(other)


def test_all_platforms_without_an_image_are_named_at_once() -> None:
    with pytest.raises(BuildError, match=r"linux/s390x, plan9/amd64: use linux/amd64 or linux/arm64"):
        recipes.build(Path("numalign-1-py3-none-any.whl"), ["linux/s390x", "plan9/amd64"], epoch=0)
