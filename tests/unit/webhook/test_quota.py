"""How many exclusive CPUs a namespace may have, as far as that can be known when a pod is created."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files.policy_keeper import PolicyKeeper
from tests.worlds.clock import Clock
from tests.worlds.notation import node
from tests.worlds.webhook import TEAM, UID, Caller, Raw, Webhook, raw, request, with_spec
from webhook.metrics import PodsBelow
from webhook.quota import LONGEST_NAME, RECENT_SECONDS, RecentlyAdmitted

FOUR = "cpu=4 mem=1Gi"
WARNED = (
    "numalign: namespace team may have 8 exclusive CPUs, its pods request 8 and this one 4:"
    " it gets them once others end"
)


def named(name: str, *containers: str, **metadata: str) -> Raw:
    made = raw(*containers)
    return {**made, "metadata": {**made["metadata"], "name": name, "namespace": TEAM, **metadata}}


def obey(webhook: Webhook, folder: Path, policy: str) -> None:
    path = folder / "policy.yaml"
    path.write_text(policy)
    webhook.policy = PolicyKeeper(path, log=webhook.journal.log, registry=CollectorRegistry())
    webhook.policy.load()


async def admitted(caller: Caller, *pods: Raw, **changes: object) -> list[bool]:
    """Whether each of these new pods is admitted, one after another."""
    return [(await caller.ask("/validate", pod, **changes))["allowed"] for pod in pods]


@pytest.fixture
def denying(webhook: Webhook, tmp_path: Path) -> Webhook:
    obey(webhook, tmp_path, "overQuota: deny")
    return webhook


async def limited(webhook: Webhook, *pods: Raw, **labels: str) -> Webhook:
    await webhook.know({}, pods=pods, team={"exclusive-cpus": "8", **labels})
    return webhook


async def test_a_pod_beyond_the_limit_gets_a_warning(webhook: Webhook) -> None:
    await limited(webhook, named("old", "cpu=6 mem=1Gi"))
    async with webhook.open() as caller:
        within = await caller.ask("/validate", named("small", "cpu=2 mem=1Gi"))
        shared = await caller.ask("/validate", named("shared", "cpu=4500m mem=1Gi"))
        beyond = await caller.ask("/validate", named("new", FOUR))

        [never] = (await caller.ask("/validate", named("huge", "cpu=9 mem=1Gi")))["warnings"]
    assert never.endswith("and this one 9: it never gets them")
    assert beyond == {"uid": UID, "allowed": True, "warnings": [WARNED]}
    assert within == shared == {"uid": UID, "allowed": True}


async def test_policy_deny_denies_beyond_the_quota(denying: Webhook) -> None:
    await limited(denying, named("old", "cpu=6 mem=1Gi"))
    async with denying.open() as caller:
        beyond = await caller.ask("/validate", named("new", FOUR))

    assert (beyond["allowed"], beyond["status"]["reason"]) == (False, "Forbidden")
    assert beyond["status"]["message"] == (
        "numalign: namespace team may have 8 exclusive CPUs, its pods request 6 and this one 4. Delete pods"
        " that are not needed, or ask your platform team for a higher limit: the label"
        " numalign.io/exclusive-cpus of the namespace, or exclusiveCPUs in the policy file."
    )
    assert beyond["auditAnnotations"] == {"verdict": "denied", "state": "over-quota"}
    assert denying.count("numalign_reviews_total", webhook="validate", decision="denied") == 1


async def test_pods_on_nodes_that_pin_no_cpus_do_not_count(denying: Webhook) -> None:
    old, allowed = named("old", "cpu=8 mem=1Gi"), []
    old["spec"]["nodeName"] = "n"
    async with denying.open() as caller:
        for nodes in ({}, {"n": node("gpu=1")}, {"n": node("cpu=8")}):
            await denying.know(nodes, pods=[old], team={"exclusive-cpus": "8"})
            allowed += await admitted(caller, named("new", FOUR), dryRun=True)

    assert allowed == [False, True, False]


async def test_pod_tied_to_an_unpinning_node_needs_no_quota(denying: Webhook) -> None:
    await denying.know({"shared": node("gpu=1"), "n": node("cpu=8")}, team={"exclusive-cpus": "0"})

    def tied(name: str) -> Raw:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return with_spec(named("new", FOUR), affinity={"nodeAffinity": required})

    async with denying.open() as caller:
        assert await admitted(caller, tied("shared"), tied("n")) == [True, False]


async def test_recently_admitted_pods_use_quota(denying: Webhook) -> None:
    await limited(denying)
    pods = [named(f"pod-{at}", FOUR) for at in range(4)]

    async with denying.open() as caller:
        assert await admitted(caller, *pods, dryRun=True) == [True] * 4
        # The API server admits no two of a name, so that the first is gone.
        assert await admitted(caller, *pods, pods[0]) == [True, True, False, False, True]


async def test_generated_names_use_quota_one_by_one(denying: Webhook) -> None:
    await limited(denying)
    async with denying.open() as caller:
        reviews = [orjson.dumps(request(raw(FOUR), uid=f"review-{at}")) for at in range(3)]
        answers = [await caller.send("/validate", review) for review in reviews]

    assert [answer["response"]["allowed"] for _, answer in answers] == [True, True, False]


@pytest.mark.parametrize(("reaction", "warnings"), [("deny", None), ("warn", 1), ("ignore", 0)])
async def test_a_pod_that_cannot_be_read_evades_no_quota(
    webhook: Webhook, tmp_path: Path, reaction: str, warnings: int | None
) -> None:
    """An API server accepts any number of resources with an amount of 0."""
    obey(webhook, tmp_path, f"overQuota: {reaction}")
    await limited(webhook)
    hidden = named("hidden", FOUR)
    for amounts in hidden["spec"]["containers"][0]["resources"].values():
        amounts |= {f"example.com/none-{at}": "0" for at in range(300)}
    async with webhook.open() as caller:
        answer = await caller.ask("/validate", hidden)

    text = str(answer.get("warnings") or answer.get("status"))
    assert (len(answer.get("warnings", ())) if answer["allowed"] else None) == warnings
    assert ("those of this pod cannot be counted: spec.containers[0].resources" in text) is (warnings != 0)


async def test_pod_denied_for_its_level_uses_no_quota(denying: Webhook) -> None:
    await limited(denying, enforce="restricted")
    async with denying.open() as caller:
        await caller.ask("/validate", named("loose", FOUR))

    assert len(denying.recent) == 0


async def test_the_limit_and_its_use_stand_on_the_page_of_metrics(webhook: Webhook) -> None:
    on_node = named("old", "cpu=6 mem=1Gi")
    on_node["spec"]["nodeName"] = "n"
    await webhook.know(
        {}, pods=[on_node, named("new", FOUR)], team={"exclusive-cpus": "8"}, zoo={"exclusive-cpus": "3"}
    )
    below = PodsBelow(webhook.known, webhook.policy, PodReader(), most=1)
    await below.update()
    _, _, *families = below.collect()
    found = {
        (family.name.removeprefix("numalign_exclusive_cpus_"), sample.labels["namespace"]): sample.value
        for family in families
        for sample in family.samples
    }

    assert found == {
        ("used", ""): 0, ("requested", ""): 0, ("limit", ""): 3,
        ("used", "team"): 6, ("requested", "team"): 10, ("limit", "team"): 8,
    }  # fmt: skip


NAMES = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from("abc"))


@given(st.lists(st.tuples(NAMES, st.integers(0, 3), st.floats(0, RECENT_SECONDS), st.booleans())))
def test_sum_equals_that_of_the_admitted_pods(events: list[tuple[tuple[str, str], int, float, bool]]) -> None:
    time = Clock()
    recent, expected = RecentlyAdmitted(time), dict[tuple[str, str], tuple[int, float]]()
    for key, cpus, later, seen in events:
        time.seconds += later
        if seen:
            recent.forget(key)
            expected.pop(key, None)
        else:
            recent.add(key, cpus)
            expected[key] = cpus, time() + RECENT_SECONDS
        alive = {name: cpus for name, (cpus, until) in expected.items() if until > time()}
        for namespace in "xy":
            assert recent.beside((namespace, "a")) == sum(
                cpus for (of, name), cpus in alive.items() if of == namespace and name != "a"
            )


async def test_long_name_is_stored_up_to_the_limit(webhook: Webhook) -> None:
    await limited(webhook)
    async with webhook.open() as caller:
        await caller.ask("/validate", named("n" * 10_000, FOUR))

    assert len(webhook.recent) == 1
    assert webhook.recent.beside(("team", "n" * LONGEST_NAME)) == 0
