"""The cache in which admission is decided, kept up to date with a cluster."""

from collections.abc import Iterator

from numalign.cache import ClusterCache
from numalign.kube.cluster import Change, Cluster, NodeChanged, ShapesChanged, differences
from numalign.lru import Caches
from numalign.runtime.cooperative import patiently


def apply(cache: ClusterCache, change: Change) -> None:
    """Apply to a cache what concerns it of a change."""
    match change:
        case NodeChanged(name, _, now):
            if now.node is None:
                cache.nodes.drop(name)
            else:
                cache.nodes.put(now.node)
            cache.unknown_nodes.update(name, now.bare)
        case ShapesChanged(shapes, left_out, pools):
            cache.update_shapes(shapes, left_out, pools)


def of(cluster: Cluster) -> ClusterCache:
    """Return the cache of a cluster as it is now."""
    cache = ClusterCache()
    for change in differences(Cluster(), cluster):
        apply(cache, change)
    return cache


class GatheredCache:
    """A cache that is used now and then: changes are only noted until it is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cache = ClusterCache()
        self._noted: dict[str, NodeChanged] = {}
        self._shapes: dict[str, None] = {}
        self._others = False
        cluster.listen(self._note)

    def caches(self) -> Caches:
        """Return the caches, by their names in metrics."""
        return self._cache.caches()

    async def current(self) -> ClusterCache:
        """Return the cache after all changes so far, which takes some steps."""
        await patiently(self._catch_up())
        return self._cache

    def _note(self, change: Change) -> None:
        match change:
            case NodeChanged(name):
                self._noted[name] = change
            case ShapesChanged(shapes):
                self._shapes.update(dict.fromkeys(shapes))
                self._others = True

    def _catch_up(self) -> Iterator[None]:
        while self._noted or self._others:
            if self._others:
                shapes = {key: self._cluster.shapes.get(key) for key in self._shapes}
                self._shapes, self._others = {}, False
                apply(self._cache, ShapesChanged(shapes, self._cluster.left_out, self._cluster.pools))
            if self._noted:
                apply(self._cache, self._noted.pop(next(iter(self._noted))))
            yield
