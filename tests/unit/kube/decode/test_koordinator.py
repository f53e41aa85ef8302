"""What Koordinator annotates of a kubelet, and what it should not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.koordinator import CPU_POLICY, CPU_TOPOLOGY, NO_FACTS, CpuFacts, cpu_facts
from numalign.model.node import CpuManager
from numalign.model.options import CpuOption
from tests.worlds.notation import table

WHOLE_CORES = frozenset({CpuOption.FULL_PCPUS_ONLY})
STATIC, NONE = CpuFacts(CpuManager.STATIC), CpuFacts(CpuManager.NONE)


@pytest.mark.parametrize(("written", "expected"), table([
    # what it shows              what is written                                                 what is read
    ("a policy",                 {"policy": "static"},                                           STATIC),
    ("an option",                {"policy": "static", "options": {"full-pcpus-only": "true"}},
     CpuFacts(CpuManager.STATIC, WHOLE_CORES)),
    ("one that is off",          {"policy": "static", "options": {"full-pcpus-only": "false"}},  STATIC),
    ("nothing is queried",       {},                                                             NO_FACTS),
    ("an unknown option",        {"policy": "static", "options": {"x": "true"}},                 NO_FACTS),
]))  # fmt: skip
def test_the_policy_of_the_cpu_manager(written: object, expected: CpuFacts) -> None:
    assert cpu_facts({CPU_POLICY: json.dumps(written)}, 4) == expected


def places(*cores: int) -> list[dict[str, int]]:
    return [{"id": at, "core": core, "socket": 0, "node": 0} for at, core in enumerate(cores)]


@pytest.mark.parametrize(("detail", "expected"), table([
    # what it shows            the CPUs                            threads per core
    ("two",                    places(0, 1, 0, 1),                 2),
    ("one",                    places(0, 1, 2, 3),                 1),
    ("cores that differ",      places(0, 0, 0, 1),                 None),
    ("a place that is none",   [*places(0, 1, 0), {"core": "x"}],  None),
    ("no list",                {"0": {}},                          None),
]))  # fmt: skip
def test_the_threads_of_a_core(detail: object, expected: int | None) -> None:
    assert cpu_facts({CPU_TOPOLOGY: json.dumps({"detail": detail})}, 4).threads == expected


@given(
    st.sampled_from([CPU_POLICY, CPU_TOPOLOGY]), st.text() | st.none() | st.integers() | st.just("[" * 9999)
)
def test_invalid_json_has_no_facts(key: str, text: object) -> None:
    assert cpu_facts({key: text}, 4) == NO_FACTS
