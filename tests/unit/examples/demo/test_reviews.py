"""Reviews look as if an API server had written them."""

from examples.demo import bundled, reviews
from tests.unit.kubectl_numa.objects import manifest


def test_a_review_has_what_an_api_server_sends() -> None:
    pod = manifest("a", "1", namespace="team-a")
    request = reviews.review(pod, uid="u-1")["request"]
    assert request["uid"] == "u-1"
    assert (request["name"], request["namespace"], request["operation"]) == ("a", "team-a", "CREATE")
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == request["requestResource"]
    assert (request["dryRun"], request["oldObject"], request["object"]) == (False, None, pod)
    assert request["userInfo"]["username"]


def test_a_name_that_is_still_to_be_made_up_is_empty() -> None:
    pod = {"metadata": {"generateName": "a-", "namespace": "n"}, "spec": {"containers": []}}
    assert reviews.review(pod, uid="u")["request"]["name"] == ""


def test_defaults_are_filled_in_and_the_manifest_stays() -> None:
    written = manifest("a", "1")
    pod = reviews.defaulted(written)
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "4Gi"}
    assert (pod["spec"]["restartPolicy"], pod["spec"]["schedulerName"]) == ("Always", "default-scheduler")
    assert [each["key"] for each in pod["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert written == manifest("a", "1")


def test_what_the_owner_wrote_is_kept() -> None:
    for story in bundled.stories(bundled.read(bundled.PODS)):
        written, stored = story.manifest["spec"], reviews.defaulted(story.manifest)["spec"]
        assert {key: stored[key] for key in written if "ontainers" not in key} == {
            key: written[key] for key in written if "ontainers" not in key
        }
        for mine, theirs in zip(written["containers"], stored["containers"], strict=True):
            assert theirs["resources"].get("limits") == mine["resources"].get("limits")


def test_a_request_is_not_overwritten_by_its_limit() -> None:
    written = manifest("a", "4")
    written["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    container = reviews.defaulted(written)["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
