"""Which pods may be asked to go, and what speaks against the others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import movability
from numalign.kube.kinds import PODS_IN_FILES
from numalign.scheduling.evictable import (
    MAY_BE_WAIVED,
    MOST_OWNERS,
    MOST_VOLUMES,
    SENTENCES,
    Obstacle,
    obstacle,
)

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


Json = dict[str, Any]


def pod(  # noqa: PLR0913  the parts of a pod that matter
    *,
    owners: object = (REPLICA_SET,),
    labels: Json | None = None,
    annotations: Json | None = None,
    spec: Json | None = None,
    status: Json | None = None,
    deleted: str | None = None,
) -> Json:
    metadata: Json = {"name": "web-1", "labels": labels or {}, "annotations": annotations or {}}
    metadata["ownerReferences"] = list(owners) if isinstance(owners, tuple) else owners
    if deleted:
        metadata["deletionTimestamp"] = deleted
    return {"metadata": metadata, "spec": spec or {}, "status": status or {"phase": "Running"}}


def owned(api_version: str, kind: str) -> Json:
    return pod(owners=(REPLICA_SET | {"apiVersion": api_version, "kind": kind},))


NEVER: list[tuple[Json, Obstacle]] = [
    (pod(status={"phase": "Succeeded"}), Obstacle.ENDED),
    (pod(status={"phase": "Failed"}), Obstacle.ENDED),
    (pod(deleted="2026-01-01T00:00:00Z"), Obstacle.TERMINATING),
    (pod(annotations={"kubernetes.io/config.mirror": "x"}), Obstacle.STATIC),
    (pod(annotations={"kubernetes.io/config.source": "file"}), Obstacle.STATIC),
    (pod(owners=()), Obstacle.BARE),
    (pod(owners=None), Obstacle.BARE),
    (pod(owners=({**REPLICA_SET, "controller": False},)), Obstacle.BARE),
    (pod(owners=({**REPLICA_SET, "controller": "true"},)), Obstacle.BARE),
    (pod(owners=(REPLICA_SET, {**REPLICA_SET, "name": "other", "uid": "v"})), Obstacle.OWNERS),
    (pod(owners=(REPLICA_SET,) * (MOST_OWNERS + 1)), Obstacle.OWNERS),
    (owned("apps/v1", "DaemonSet"), Obstacle.DAEMON_SET),
    (owned("apps.kruise.io/v1beta1", "DaemonSet"), Obstacle.DAEMON_SET),
    (pod(annotations={movability.PREFER_NO_EVICTION: ""}), Obstacle.UNWANTED),
    (pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}), Obstacle.UNWANTED),
    (pod(annotations={"karpenter.sh/do-not-disrupt": "true"}), Obstacle.UNWANTED),
]
"""What no annotation can change."""

WAIVABLE: list[tuple[Json, Obstacle]] = [
    (pod(spec={"priority": 2_000_001_000}), Obstacle.CRITICAL),
    (pod(spec={"volumes": {"emptyDir": {}}}), Obstacle.UNREADABLE),
    (pod(spec={"volumes": ["emptyDir"]}), Obstacle.UNREADABLE),
    (pod(spec={"volumes": [{"secret": {}}] * (MOST_VOLUMES + 1)}), Obstacle.UNREADABLE),
    (pod(spec={"volumes": [{"secret": {}}, {"emptyDir": {}}]}), Obstacle.LOCAL_STORAGE),
    (pod(spec={"volumes": [{"emptyDir": {"medium": "Memory"}}]}), Obstacle.LOCAL_STORAGE),
    (pod(spec={"volumes": [{"hostPath": {"path": "/data"}}]}), Obstacle.LOCAL_STORAGE),
    (pod(spec={"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}), Obstacle.CLAIM),
    (pod(spec={"volumes": [{"ephemeral": {}}]}), Obstacle.CLAIM),
    (pod(spec={"resourceClaims": [{"name": "gpu"}]}), Obstacle.RESOURCE_CLAIM),
    (pod(status={"phase": "Running", "extendedResourceClaimStatus": {}}), Obstacle.RESOURCE_CLAIM),
    (pod(spec={"workloadRef": {"name": "x"}}), Obstacle.GANG),
    (pod(spec={"schedulingGroup": {"podGroupName": "x"}}), Obstacle.GANG),
    (owned("batch.volcano.sh/v1alpha1", "Job"), Obstacle.GANG),
    (owned("jobset.x-k8s.io/v1alpha2", "JobSet"), Obstacle.GANG),
    (owned("kubeflow.org/v1", "PyTorchJob"), Obstacle.GANG),
    (owned("kubeflow.org/v2beta1", "MPIJob"), Obstacle.GANG),
    (owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), Obstacle.GANG),
    (owned("ray.io/v1", "RayCluster"), Obstacle.GANG),
    (owned("batch/v1", "Job"), Obstacle.JOB),
    (owned("example.com/v1", "Database"), Obstacle.UNKNOWN_OWNER),
    (owned("example.com/v1", "ReplicaSet"), Obstacle.UNKNOWN_OWNER),
    (owned("v1", "Pod"), Obstacle.UNKNOWN_OWNER),
    *((pod(labels={key: "x"}), Obstacle.GANG) for key in sorted(movability.GANG_KEYS["labels"])),
    *((pod(annotations={key: "x"}), Obstacle.GANG) for key in sorted(movability.GANG_KEYS["annotations"])),
]


ANEW = [("apps/v1", "StatefulSet"), ("v1", "ReplicationController"), ("apps.kruise.io/v1alpha1", "CloneSet")]
NONE: list[tuple[Json, None]] = [
    (pod(), None),
    *((owned(*owner), None) for owner in ANEW),
    (pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}), None),
    (pod(annotations={"karpenter.sh/do-not-disrupt": "false"}), None),
    (pod(spec={"volumes": [{kind: {}} for kind in ("configMap", "secret", "projected", "nfs")]}), None),
]


@pytest.mark.parametrize(("raw", "why"), [*NONE, *NEVER, *WAIVABLE])
def test_obstacle_of_a_pod(raw: Json, why: Obstacle | None) -> None:
    metadata = raw["metadata"]
    annotations = metadata["annotations"] | {movability.EVICT: "true"}
    assert obstacle(raw) is obstacle(PODS_IN_FILES.described(raw)) is why
    waived = obstacle(raw | {"metadata": metadata | {"annotations": annotations}})
    assert waived is (None if why in MAY_BE_WAIVED else why)


@pytest.mark.parametrize("text", ["", "True", None, ["true"]])
def test_only_true_is_true(text: object) -> None:
    local = pod(annotations={movability.EVICT: text}, spec={"volumes": [{"emptyDir": {}}]})
    assert obstacle(local) is Obstacle.LOCAL_STORAGE


def test_every_obstacle_has_its_own_sentence() -> None:
    assert SENTENCES.keys() == set(Obstacle)
    assert len(set(SENTENCES.values())) == len(Obstacle)
    assert {why for _, why in (*NEVER, *WAIVABLE)} == set(Obstacle)
    assert {why for _, why in WAIVABLE} == MAY_BE_WAIVED


def test_snapshot_pod_has_labels_and_no_volume_names() -> None:
    raw = pod(labels={"app": "web", "spark-role": "driver"}, spec={"volumes": [{"name": "x", "secret": {}}]})
    described = PODS_IN_FILES.described(raw)
    assert described["metadata"]["labels"] == {"app": "web", "spark-role": "driver"}
    assert described["spec"]["volumes"] == [{}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(metadata=JSON, spec=JSON, status=JSON, owners=JSON, volumes=JSON)
def test_any_pod_has_an_answer(
    metadata: object, spec: object, status: object, owners: object, volumes: object
) -> None:
    assert obstacle({"metadata": metadata, "spec": spec, "status": status}) in {None, *Obstacle}
    assert obstacle(pod(owners=owners, spec={"volumes": volumes})) in {None, *Obstacle}
