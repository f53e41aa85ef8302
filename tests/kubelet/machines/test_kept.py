"""What a kubelet's checkpoints list of a pod."""

import json
from pathlib import Path

from tools.clusters.kubelets.kept import kept, taken

MACHINE = {"zones": [{"id": 0, "cores": [[0, 4], [1, 5]]}, {"id": 1, "cores": [[2, 6], [3, 7]]}]}
DEVICES = {
    "example.com/gpu": [{"id": "g0", "zones": [0]}, {"id": "g1", "zones": [1]}],
    "example.com/wide": [{"id": "w0", "zones": [0, 1]}],
}


def write(state: Path) -> None:
    cpus = {"entries": {"uid-1": {"main": "1,5", "side": "3"}, "uid-2": {"main": "2"}}}
    blocks = [
        {"numaAffinity": [1, 0], "type": "memory", "size": 7},
        {"numaAffinity": [0], "type": "x", "size": 0},
    ]
    memory = {"entries": {"uid-1": {"main": blocks}}}
    entries = [
        ("uid-1", "main", "example.com/gpu", {"0": ["g0"]}),
        ("uid-1", "side", "example.com/wide", {"0": ["w0"], "1": ["w0"]}),
        ("gone", "a", "example.com/gpu", {"1": ["g1"]}),
    ]
    keys = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")
    given = [dict(zip(keys, entry, strict=True)) for entry in entries]
    (state / "device-plugins").mkdir()
    (state / "cpu_manager_state").write_text(json.dumps(cpus))
    (state / "memory_manager_state").write_text(json.dumps(memory))
    checkpoint = state / "device-plugins" / "kubelet_internal_checkpoint"
    checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": given}}))


def test_checkpoints_list_what_a_pod_has(tmp_path: Path) -> None:
    write(tmp_path)

    pod = kept(tmp_path, "uid-1", DEVICES)

    assert pod.cpus == {"main": "1,5", "side": "3"}
    assert pod.memory == {"main": {(0, 1): {"memory": 7}}}
    assert pod.devices == {
        "main": {(0,): {"example.com/gpu": 1}},
        "side": {(0, 1): {"example.com/wide": 1}},
    }
    assert pod.total(MACHINE) == {
        (0,): {"cpu": 2000, "example.com/gpu": 1},
        (0, 1): {"memory": 7, "example.com/wide": 1},
        (1,): {"cpu": 1000},
    }


def test_devices_of_unknown_pods_are_not_taken(tmp_path: Path) -> None:
    write(tmp_path)

    assert taken(tmp_path, "example.com/gpu", {"uid-1"}, DEVICES) == {0: 1}


def test_missing_checkpoints_list_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path, "uid-1", DEVICES).total(MACHINE) == {}
    assert taken(tmp_path, "example.com/gpu", {"uid-1"}, DEVICES) == {}
