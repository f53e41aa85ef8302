"""
AdmissionReviews as an API server writes them.

Before it calls a webhook, the API server sets its defaults (k8s.io/kubernetes pkg/apis/core/v1/defaults.go)
and runs its own admission plugins (service account, priority, tolerations), so a webhook never sees the
manifest as its owner wrote it. The reviews here look the same.
"""

from collections.abc import Mapping
from typing import Any

from kubectl_numa.demo.patches import copied

_KIND = {"group": "", "version": "v1", "kind": "Pod"}
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_USER = {"username": "kubernetes-admin", "groups": ["kubeadm:cluster-admins", "system:authenticated"]}


def review(pod: Mapping[str, Any], *, uid: str) -> dict[str, Any]:
    """Return the review of a pod that is being created; `uid` is unique to the call."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": _KIND,
            "resource": _RESOURCE,
            "requestKind": _KIND,
            "requestResource": _RESOURCE,
            "name": metadata.get("name", ""),
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": _USER,
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def defaulted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod as an API server sends it to webhooks; the manifest is not changed."""
    pod: dict[str, Any] = copied(manifest)
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
    return {**pod, "spec": {**_SPEC, **spec}, "status": {}}


_SPEC: Mapping[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for condition in ("not-ready", "unreachable")
    ],
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
