"""An SBOM lists the packages of its lock, and nothing of the machine that made it."""

import json
import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.tools.release.conftest import VERSION
from tools.release.distributions import make_bill
from tools.release.order import Order

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


@pytest.mark.skipif(sys.platform != "linux", reason="the images are for Linux")
def test_sbom_lists_the_packages_of_the_lock(order: Order) -> None:
    # Only the environment of developers has it.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    text = make_bill(order, "numalign-agent").read_text()
    bill = json.loads(text)
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(json.dumps(bill | {"licence": "Apache-2.0"})) is not None

    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == ("numalign", VERSION)
    lock = re.findall(r"^([a-z].*?) \\$", (order.locks / "agent.txt").read_text(), re.MULTILINE)
    pins = [pin for pin in map(Requirement, lock) if not pin.marker or pin.marker.evaluate()]
    assert {f"{canonicalize_name(each['name'])}=={each['version']}" for each in bill["components"]} == {
        f"{pin.name}{pin.specifier}" for pin in pins
    }
    assert [each for each in bill["components"] if not each["purl"].startswith("pkg:pypi/")] == []
    assert re.findall(r'"(?:/|file:)[^"]*"', text) == []
    assert {"timestamp", "serialNumber"}.isdisjoint({*bill, *bill["metadata"]})
