"""Pods from manifests, from the API server, and out of workloads."""

from typing import Any

import pytest
import yaml

from numalign.cluster import pods
from numalign.cluster.pods import TemplatePath
from numalign.rules.errors import AND_MORE, MOST_MISTAKES, BadPod
from numalign.rules.pod import Container, Pod, Role
from numalign.rules.resources import Resources

GIB = 2**30


def container(name: str = "main", **fields: object) -> dict[str, Any]:
    return {"name": name, **fields}


def raw(*containers: object, metadata: object = None, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers), **spec},
    }


def asks(**bags: dict[str, Any]) -> dict[str, Any]:
    return container(resources=bags)


def test_a_pod_is_read_in_the_order_of_the_kubelet() -> None:
    written = raw(
        container(
            resources={"requests": {"cpu": 4}, "limits": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": 1}}
        ),
        container("helper"),
        initContainers=[
            container("setup", resources={"requests": {"cpu": "500m"}}),
            container("proxy", restartPolicy="Always"),
            container("late", restartPolicy="OnFailure"),
        ],
        resources={"limits": {"cpu": "8"}},
        overhead={"memory": "120Mi"},
        metadata={"name": "web", "namespace": "team", "annotations": {"numalign.io/policy": "restricted"}},
    )

    assert pods.pod(written) == Pod(
        name="web",
        namespace="team",
        annotations={"numalign.io/policy": "restricted"},
        containers=(
            Container("setup", Role.INIT, requests=Resources({"cpu": 500})),
            Container("proxy", Role.SIDECAR),
            Container("late", Role.INIT),
            Container(
                "main",
                Role.APP,
                requests=Resources({"cpu": 4000}),
                limits=Resources({"cpu": 4000, "memory": GIB, "nvidia.com/gpu": 1}),
            ),
            Container("helper"),
        ),
        pod_requests=None,
        pod_limits=Resources({"cpu": 8000}),
        overhead=Resources({"memory": 120 * 2**20}),
    )


@pytest.mark.parametrize(
    ("metadata", "name", "namespace"),
    [
        ({"name": "a", "namespace": "b"}, "a", "b"),
        ({"generateName": "web-"}, "web-", "default"),
        ({}, "", "default"),
        (None, "", "default"),
    ],
    ids=["both", "still to be named", "empty", "null"],
)
def test_a_pod_may_lack_a_name_and_a_namespace(metadata: object, name: str, namespace: str) -> None:
    read = pods.pod(raw(container(), metadata=metadata))

    assert (read.name, read.namespace) == (name, namespace)


def test_null_counts_as_absent_everywhere() -> None:
    nulls: dict[str, Any] = dict.fromkeys(("initContainers", "resources", "overhead"))
    limits = container(resources={"requests": None, "limits": {"cpu": None}})

    assert pods.pod(raw(limits, container("b", resources=None), **nulls)).containers == (
        Container("main"),
        Container("b"),
    )


MISTAKES = {
    # situation: (pod, every mistake in order)
    "no pod": ([], ["must be an object, not a list", "spec: is missing"]),
    "nothing": ({}, ["spec: is missing"]),
    "spec null": ({"spec": None}, ["spec: is missing"]),
    "spec a text": ({"spec": "x"}, ['spec: must be an object, not "x"']),
    "metadata a list": (raw(container(), metadata=[]), ["metadata: must be an object, not a list"]),
    "a name that is a number": (
        raw(container(), metadata={"name": 1}),
        ["metadata.name: must be a text, not a number"],
    ),
    "an annotation that is a number": (
        raw(container(), metadata={"annotations": {"a/b": 1}}),
        ["metadata.annotations[a/b]: must be a text, not a number"],
    ),
    "no containers": ({"spec": {}}, ["spec.containers: is missing"]),
    "an empty list": (raw(), ["spec.containers: is empty: a pod has at least one container"]),
    "containers an object": (
        {"spec": {"containers": {}}},
        ["spec.containers: must be a list, not an object"],
    ),
    "containers that are none": (
        raw("a", None),
        [
            'spec.containers[0]: must be an object, not "a"',
            "spec.containers[1]: must be an object, not null",
        ],
    ),
    "no name": (raw({}), ["spec.containers[0].name: is missing"]),
    "an empty name": (raw(container("")), ["spec.containers[0].name: is empty"]),
    "a name twice": (
        raw(container("a"), container("a"), initContainers=[container("a")]),
        [
            'spec.containers[0].name: "a" is the name of spec.initContainers[0] too',
            'spec.containers[1].name: "a" is the name of spec.initContainers[0] too',
        ],
    ),
    "resources a text": (
        raw(container(resources="4")),
        ['spec.containers[0].resources: must be an object, not "4"'],
    ),
    "limits a list": (
        raw(asks(limits=[])),  # type: ignore[arg-type]
        ["spec.containers[0].resources.limits: must be an object, not a list"],
    ),
    "a quantity that is none": (
        raw(asks(limits={"memory": "4GB"})),
        [
            (
                'spec.containers[0].resources.limits.memory: "4GB" is not a quantity; G or Gi is meant?'
                "\n  4GB\n   ^"
            )
        ],
    ),
    "a negative quantity": (
        raw(asks(requests={"cpu": "-1"}, limits={"cpu": -1})),
        [
            'spec.containers[0].resources.requests.cpu: "-1" is negative: an amount is zero or more',
            'spec.containers[0].resources.limits.cpu: "-1" is negative: an amount is zero or more',
        ],
    ),
    "a huge quantity": (
        raw(asks(limits={"cpu": "1e99"})),
        [
            'spec.containers[0].resources.limits.cpu: "1e99" is larger than any amount (2^63-1 units)',
        ],
    ),
    "a quantity that is a boolean": (
        raw(asks(limits={"cpu": True})),
        [
            (
                "spec.containers[0].resources.limits.cpu: True is not a quantity: "
                "write a number or a text like 4 or 500m"
            ),
        ],
    ),
    "a request above its limit": (
        raw(asks(requests={"cpu": "2500m", "memory": "2Gi"}, limits={"cpu": 2, "memory": "1Gi"})),
        [
            "spec.containers[0].resources.requests.cpu: 2500m is above the limit of 2",
            "spec.containers[0].resources.requests.memory: 2Gi is above the limit of 1Gi",
        ],
    ),
    "the pod's request above its limit": (
        raw(container(), resources={"requests": {"cpu": 3}, "limits": {"cpu": 2}}),
        ["spec.resources.requests.cpu: 3 is above the limit of 2"],
    ),
    "a wrong overhead": (
        raw(container(), overhead={"cpu": []}),
        ["spec.overhead.cpu: must be an amount, not a list"],
    ),
    "a restart policy that is none": (
        raw(container(), initContainers=[container("a", restartPolicy=True)]),
        ["spec.initContainers[0].restartPolicy: must be a text, not true or false"],
    ),
}


@pytest.mark.parametrize(("written", "mistakes"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_is_told_with_its_path(written: dict[str, Any], mistakes: list[str]) -> None:
    with pytest.raises(BadPod) as raised:
        pods.pod(written)
    assert [str(mistake) for mistake in raised.value.mistakes] == mistakes


def test_mistakes_in_different_places_are_told_together() -> None:
    written = raw(asks(limits={"cpu": "x"}), {}, initContainers="a", metadata={"name": []})

    with pytest.raises(BadPod) as raised:
        pods.pod(written)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        "metadata.name",
        "spec.initContainers",
        "spec.containers[0].resources.limits.cpu",
        "spec.containers[1].name",
    ]


# Workloads.

POD_SPEC = {"spec": {"containers": [container()]}}

PLAIN = ["spec.template"]

MANIFESTS = [
    # each kind, as its project shows it, its spec, where its pods are
    ("v1", "ReplicationController",               "template: T", PLAIN),
    ("apps/v1", "DaemonSet",                      "template: T", PLAIN),
    ("apps/v1", "Deployment",                     "{replicas: 2, template: T}", PLAIN),
    ("apps/v1", "ReplicaSet",                     "template: T", PLAIN),
    ("apps/v1", "StatefulSet",                    "{serviceName: s, template: T}", PLAIN),
    ("apps.kruise.io/v1alpha1", "CloneSet",       "template: T", PLAIN),
    ("argoproj.io/v1alpha1", "Rollout",           "{strategy: {canary: {}}, template: T}", PLAIN),
    ("argoproj.io/v1alpha1", "Rollout",           "workloadRef: {kind: Deployment}",         []),
    ("batch/v1", "Job",                           "{parallelism: 2, template: T}", PLAIN),
    ("batch/v1", "CronJob",
        "{schedule: '@daily', jobTemplate: {spec: {template: T}}}", ["spec.jobTemplate.spec.template"]),
    ("batch.volcano.sh/v1alpha1", "Job",
        "tasks: [{name: ps, replicas: 1, template: T}, {name: worker, template: T}]",
        ["spec.tasks[0].template", "spec.tasks[1].template"]),
    ("jobset.x-k8s.io/v1alpha2", "JobSet",
        "replicatedJobs: [{name: w, template: {spec: {template: T}}}]",
        ["spec.replicatedJobs[0].template.spec.template"]),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        "leaderWorkerTemplate: {size: 4, workerTemplate: T}",
        ["spec.leaderWorkerTemplate.workerTemplate"]),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        "leaderWorkerTemplate: {leaderTemplate: T, workerTemplate: T}",
        ["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"]),
    ("ray.io/v1", "RayCluster",
        "{headGroupSpec: {template: T}, workerGroupSpecs: [{groupName: g, template: T}]}",
        ["spec.headGroupSpec.template", "spec.workerGroupSpecs[0].template"]),
    ("ray.io/v1", "RayJob",
        "{rayClusterSpec: {headGroupSpec: {template: T}}, submitterPodTemplate: T}",
        ["spec.rayClusterSpec.headGroupSpec.template", "spec.submitterPodTemplate"]),
    ("ray.io/v1", "RayService",
        "rayClusterConfig: {headGroupSpec: {template: T}, workerGroupSpecs: [{template: T}]}",
        ["spec.rayClusterConfig.headGroupSpec.template",
         "spec.rayClusterConfig.workerGroupSpecs[0].template"]),
    ("kubeflow.org/v1", "JAXJob",     "jaxReplicaSpecs: {Worker: {template: T}}",
        ["spec.jaxReplicaSpecs.Worker.template"]),
    ("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs: {Launcher: {template: T}, Worker: {template: T}}",
        ["spec.mpiReplicaSpecs.Launcher.template", "spec.mpiReplicaSpecs.Worker.template"]),
    ("kubeflow.org/v1", "PaddleJob",  "paddleReplicaSpecs: {Worker: {template: T}}",
        ["spec.paddleReplicaSpecs.Worker.template"]),
    ("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs: {Master: {template: T}, Worker: {template: T}}",
        ["spec.pytorchReplicaSpecs.Master.template", "spec.pytorchReplicaSpecs.Worker.template"]),
    ("kubeflow.org/v1", "TFJob",      "tfReplicaSpecs: {PS: {template: T}}",
        ["spec.tfReplicaSpecs.PS.template"]),
    ("kubeflow.org/v1", "XGBoostJob", "xgbReplicaSpecs: {Master: {template: T}}",
        ["spec.xgbReplicaSpecs.Master.template"]),
]  # fmt: skip


def filled(value: Any) -> Any:  # noqa: ANN401 - any YAML
    """The same, with a pod template in place of each T."""
    if isinstance(value, dict):
        return {key: filled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner) for inner in value]
    return POD_SPEC if value == "T" else value


def workload(version: str, kind: str, spec: object) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "team"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("version", "kind", "spec", "where"), MANIFESTS, ids=lambda value: str(value)[:40])
def test_each_workload_has_pods_named_after_it(version: str, kind: str, spec: str, where: list[str]) -> None:
    made = pods.pods_of(workload(version, kind, filled(yaml.safe_load(spec))))

    assert [each.where for each in made] == where
    assert {each.pod.name for each in made} <= {"web"}
    assert all(each.pod == Pod("web", "team", containers=(Container("main"),)) for each in made)


def test_a_pod_template_has_its_pod_beside_its_metadata() -> None:
    written = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "web"}, "template": POD_SPEC}

    assert [(each.where, each.pod.name) for each in pods.pods_of(written)] == [("template", "web")]


def test_every_kind_of_the_table_has_a_manifest_here() -> None:
    shown = {(version.rpartition("/")[0], kind) for version, kind, *_ in MANIFESTS}

    assert shown | {("", "Pod"), ("", "PodTemplate")} == {*pods.TEMPLATES}


def test_a_pod_is_its_own() -> None:
    (made,) = pods.pods_of(raw(container(), metadata={"name": "a"}))

    assert (made.where, made.pod.name) == ("", "a")


def test_a_mistake_in_the_name_of_a_pod_is_told_once() -> None:
    with pytest.raises(BadPod) as raised:
        pods.pods_of(raw(container(), metadata={"name": 1}))

    assert [str(mistake) for mistake in raised.value.mistakes] == [
        "metadata.name: must be a text, not a number"
    ]


def test_a_mistake_in_the_name_of_a_workload_is_told_once_for_all_its_templates() -> None:
    written = workload("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": POD_SPEC}] * 2})

    with pytest.raises(BadPod) as raised:
        pods.pods_of({**written, "metadata": {"name": 1}})

    assert [str(mistake) for mistake in raised.value.mistakes] == [
        "metadata.name: must be a text, not a number"
    ]


TASKS = [{"template": {"spec": {"containers": [{}]}}}, {"template": [1]}]

ASTRAY = {
    # situation: (the sort, its spec, every mistake in order)
    "in the template": (
        ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}),
        ["spec.jobTemplate.spec.template.spec.containers[0].name: is missing"],
    ),
    "in every template": (
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": TASKS}),
        [
            "spec.tasks[0].template.spec.containers[0].name: is missing",
            "spec.tasks[1].template: must be an object, not a list",
            "spec.tasks[1].template.spec: is missing",
        ],
    ),
    "a spec that is a list": (("apps/v1", "Deployment", []), ["spec: must be an object, not a list"]),
    "tasks that are an object": (
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": {}}),
        ["spec.tasks: must be a list, not an object"],
    ),
    "tasks that are none": (
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [None, "a"]}),
        ["spec.tasks[0]: must be an object, not null", 'spec.tasks[1]: must be an object, not "a"'],
    ),
    "replicas that are a list": (
        ("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": [1]}),
        ["spec.tfReplicaSpecs: must be an object, not a list"],
    ),
    "a replica that is a number": (
        ("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {"PS": 1}}),
        ["spec.tfReplicaSpecs.PS: must be an object, not a number"],
    ),
    "more tasks than anybody has": (
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [None] * 1_000_000}),
        ["spec.tasks: has 1000000 entries: numalign reads at most 100"],
    ),
    "more templates than anybody has": (
        (
            "ray.io/v1",
            "RayCluster",
            {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [{"template": {}}] * 100},
        ),
        ["has 101 pod templates: numalign reads at most 100"],
    ),
}


@pytest.mark.parametrize(("written", "mistakes"), ASTRAY.values(), ids=ASTRAY)
def test_mistakes_in_workloads_have_the_path_from_the_top(
    written: tuple[str, str, object], mistakes: list[str]
) -> None:
    with pytest.raises(BadPod) as raised:
        pods.pods_of(workload(*written))

    assert [str(mistake) for mistake in raised.value.mistakes] == mistakes


ABSENT: dict[str, tuple[str, str, object]] = {
    "no spec": ("apps/v1", "Deployment", None),
    "no template": ("apps/v1", "Deployment", {}),
    "a template that is null": ("apps/v1", "Deployment", {"template": None}),
    "no tasks": ("batch.volcano.sh/v1alpha1", "Job", {"tasks": []}),
    "a task without template": ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{}]}),
    "no replicas": ("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {"PS": None}}),
}


@pytest.mark.parametrize("written", ABSENT.values(), ids=ABSENT)
def test_what_is_absent_is_no_mistake(written: tuple[str, str, object]) -> None:
    assert pods.pods_of(workload(*written)) == ()


@pytest.mark.parametrize(
    ("version", "kind"),
    [("v1", "Service"), ("example.com/v1", "Job"), ("v1", "Deployment")],
    ids=["a service", "a job of somebody else", "a deployment of no group"],
)
def test_other_kinds_make_no_pod(version: str, kind: str) -> None:
    assert pods.pods_of(workload(version, kind, {"template": POD_SPEC})) == ()


def test_kinds_can_be_added_and_built_in_ones_extended() -> None:
    extra = {
        ("example.com", "Train"): (TemplatePath.read("spec.roles.*.template"),),
        ("apps", "Deployment"): (TemplatePath.read("spec.template"), TemplatePath.read("spec.canary")),
    }
    train = workload("example.com/v2", "Train", {"roles": {"a": {"template": POD_SPEC}}})
    web = workload("apps/v1", "Deployment", {"template": POD_SPEC, "canary": POD_SPEC})

    found = [[each.where for each in pods.pods_of(written, extra=extra)] for written in (train, web)]

    assert found == [["spec.roles.a.template"], ["spec.template", "spec.canary"]]


@pytest.mark.parametrize(
    "text", ["template", "spec.template", "spec.tasks[*].template", "a.*.b", "*", "a[*]"]
)
def test_a_path_is_written_as_it_was_read(text: str) -> None:
    assert str(TemplatePath.read(text)) == text


NO_PATHS = {
    "nothing": ("", "a name is missing"),
    "no name": ("spec..template", "a name is missing"),
    "a list without a name": ("[*]", "a name is missing"),
    "a dot at the end": ("spec.", "a name is missing"),
    "a number": ("spec.tasks[0].template", r'"tasks\[0\]" is no step'),
    "a list in a list": ("spec.tasks[*][*]", r'"tasks\[\*\]" is no step'),
    "a prefix": ("spec.rep*.template", r'"rep\*" is no step'),
    "a dollar": ("$.spec.template", r'"\$" is no step'),
    "spaces": ("spec. template", '" template" is no step'),
    "a slash": ("spec/template", '"spec/template" is no step'),
    "too many steps": (".".join("a" * 17), "has 17 steps: at most 16 are read"),
    "too many stars": ("a[*].b[*].*", r"has \[\*\] and \* 3 times: at most 2 are read"),
    "a name without end": ("a" * 10_000, '^"a{64}" is no step'),
}


@pytest.mark.parametrize(("text", "message"), NO_PATHS.values(), ids=NO_PATHS)
def test_what_is_no_path_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TemplatePath.read(text)


def test_what_says_no_kind_is_a_mistake() -> None:
    with pytest.raises(BadPod) as raised:
        pods.pods_of({"spec": {}})
    assert str(raised.value) == "kind: is missing\napiVersion: is missing"


def test_more_containers_than_anyone_has_are_not_reckoned() -> None:
    many = [container(f"c{number}") for number in range(pods.MOST_CONTAINERS + 1)]

    with pytest.raises(BadPod, match=r"^spec\.initContainers: has 101 containers: .* at most 100$"):
        pods.pod(raw(container(), initContainers=many))


def test_more_resources_than_any_node_has_are_not_read() -> None:
    many = {f"example.com/r{number}": 1 for number in range(257)}

    with pytest.raises(BadPod, match=r"resources\.limits: has 257 entries: at most 256 are read$"):
        pods.pod(raw(asks(limits=many)))


def amounts(count: int, *, value: object = 1) -> dict[str, object]:
    return {f"example.com/r{number}": value for number in range(count)}


MANY = [container(f"c{number}", resources={"limits": amounts(200)}) for number in range(20)]
"""Containers with 4,000 amounts together."""


def test_a_pod_has_so_many_amounts_together_and_no_more() -> None:
    rest = {"resources": {"requests": amounts(40), "limits": amounts(40)}, "overhead": amounts(16)}

    assert len(pods.pod(raw(*MANY, **rest)).containers) == 20
    with pytest.raises(BadPod) as raised:
        pods.pod(raw(*MANY, initContainers=[asks(requests=amounts(1, value="wrong"))], **rest))
    assert (
        str(raised.value) == "spec: has 4097 amounts of resources: numalign reads at most 4096, ask for fewer"
    )


def test_of_many_mistakes_the_first_are_told() -> None:
    with pytest.raises(BadPod) as raised:
        pods.pod(raw(asks(limits=amounts(256, value="x"))))

    [*told, last] = raised.value.mistakes
    assert (len(told), last) == (MOST_MISTAKES, AND_MORE)


def test_of_many_templates_with_mistakes_the_first_are_told() -> None:
    tasks = [
        {"template": {"spec": {"containers": [container(f"{number}", resources=1), 2]}}}
        for number in range(60)
    ]
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": tasks}, "metadata": 1}

    with pytest.raises(BadPod) as raised:
        pods.pods_of(job)
    told = [str(each) for each in raised.value.mistakes]
    assert (len(told), told[-1]) == (MOST_MISTAKES + 1, str(AND_MORE))
    assert [each for each in told if each.startswith("metadata")] == [
        "metadata: must be an object, not a number"
    ]


def test_a_name_that_no_resource_has_is_not_read() -> None:
    longest = "x" * 253 + "/" + "y" * 63
    assert dict(pods.pod(raw(asks(limits={longest: 1}))).containers[0].limits) == {longest: 1}

    with pytest.raises(
        BadPod, match=r"limits\[x+\.\.\.\]: is no resource: a name has at most 317 characters, not 318$"
    ):
        pods.pod(raw(asks(limits={f"{longest}y": 1})))
