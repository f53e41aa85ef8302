"""A bill of materials lists what is installed, no more and no less."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from tools.release import distributions, sbom, toolbox
from tools.release.commands import FailedError, run
from tools.release.commit import Commit, exported
from tools.release.plugin.targets import PLATFORMS, Target
from tools.release.plugin.wheels import pinned_for

ROOT = Path(__file__).parents[4]
STRICT = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.from_version(sys.argv[1])).validate_str(sys.stdin.read())
sys.exit(error and error.data.message)
"""
"""Run where the tools of a release are; cyclonedx-py itself validates by the schema that is not strict."""

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Commit:
    return exported(ROOT, tmp_path_factory.mktemp("commit") / "tree")


@pytest.fixture(scope="module")
def bill(commit: Commit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of the agent, which needs the least."""
    folder = tmp_path_factory.mktemp("bill")
    wheel = distributions.make_wheel(commit, folder)
    return sbom.make_one("numalign-agent", commit, wheel, folder)


@pytest.fixture(scope="module")
def listed(bill: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(bill.read_text())
    return content


def test_it_is_cyclonedx_about_this_version(bill: Path, listed: dict[str, Any], commit: Commit) -> None:
    assert bill.name == f"numalign-agent-{commit.version}.cdx.json"
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", sbom.FORMAT)
    about = listed["metadata"]["component"]
    assert (about["name"], about["version"]) == ("numalign", commit.version)


def test_it_is_valid_by_the_strict_schema(bill: Path) -> None:
    validate(bill.read_bytes())


def test_a_property_that_cyclonedx_does_not_know_would_not_be(listed: dict[str, Any]) -> None:
    with pytest.raises(FailedError, match="'licence' was unexpected"):
        validate(json.dumps(listed | {"licence": "Apache-2.0"}).encode())


def validate(content: bytes) -> None:
    """Raise `FailedError` for a document that the strict schema refuses."""
    python = toolbox.environment(ROOT / "requirements" / "release.txt")
    run(python, "-c", STRICT, sbom.FORMAT, stdin=content)


@pytest.mark.skipif(sys.platform != "linux", reason="the images are for Linux")
def test_it_lists_each_package_of_the_lock(listed: dict[str, Any]) -> None:
    lock = (ROOT / "requirements" / sbom.LOCKS["numalign-agent"]).read_text()
    target = Target(PLATFORMS[0], (sys.version_info.major, sys.version_info.minor))
    pinned = {text.split()[0] for text in pinned_for(target, lock)}
    components = {f"{canonicalize_name(each['name'])}=={each['version']}" for each in listed["components"]}
    assert components == pinned


def test_scanners_find_every_package_and_nothing_of_this_machine(bill: Path, listed: dict[str, Any]) -> None:
    assert [each for each in listed["components"] if not each["purl"].startswith("pkg:pypi/")] == []
    assert re.findall(r'"(?:/|file:)[^"]*"', bill.read_text()) == []
    assert {"timestamp", "serialNumber"}.isdisjoint({*listed, *listed["metadata"]})
