"""
The API server: the only folder that knows how Kubernetes writes things down, and the only one that calls it.

Outside there are dictionaries of any shape, inside there are only the values of the rules. In order:

    parts -> documents -> pods, topologies, kubelet_config, machines, namespaces -> nodes -> machine_nodes
    -> snapshot; kinds -> api -> live; placements

`parts` reads what anybody may have written, `documents` the files it stands in. Each decoder makes one value
of one object, or raises with all that is wrong with it; `nodes` and `machine_nodes` make one node of several;
`snapshot` makes a cluster of many objects and lets no broken one stop the others. `kinds` says where objects
are served and what of them is kept, `api` asks one API server, and `live` takes a snapshot through it.
`placements` writes: what a pod keeps, for its annotation.
"""
