"""Reviews have the fields that an API server sends."""

from examples.demo import reviews
from tests.unit.kubectl_numa.objects import manifest


def test_review_has_the_fields_of_an_api_server() -> None:
    pod = manifest("a", "1", namespace="team-a")
    request = reviews.review(pod, uid="u-1")["request"]
    assert request["uid"] == "u-1"
    assert (request["name"], request["namespace"], request["operation"]) == ("a", "team-a", "CREATE")
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == request["requestResource"]
    assert (request["dryRun"], request["oldObject"], request["object"]) == (False, None, pod)
    assert request["userInfo"]["username"]


def test_defaults_are_added_to_a_copy() -> None:
    given = manifest("a", "1")
    pod = reviews.defaulted(given)
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "4Gi"}
    assert (pod["spec"]["restartPolicy"], pod["spec"]["schedulerName"]) == ("Always", "default-scheduler")
    assert [each["key"] for each in pod["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert given == manifest("a", "1")


def test_limit_does_not_replace_a_request() -> None:
    given = manifest("a", "4")
    given["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    container = reviews.defaulted(given)["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
