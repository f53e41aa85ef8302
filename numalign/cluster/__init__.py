"""
The API server: the only folder that knows how Kubernetes writes things down, and the only one that calls it.

Outside there are dictionaries of any shape, inside there are only the values of the rules. In order:

    parts -> documents -> pods, fingerprints, topologies, kubelet_config, machines, namespaces -> nodes
    -> machine_nodes; kinds, shapes, placements, records -> asking -> census -> world -> snapshot, feed
    excess -> scheduling; policy -> tenancy -> pod_reader
    api -> live, reflector -> file_feed, live_feed, occupants; configz, lease, bindings, events

`parts` reads what anybody may have written, `documents` the files it stands in. Each decoder makes one value
of one object, or raises with all that is wrong with it; `nodes` and `machine_nodes` make one node of several.
`shapes` writes down what nodes are in health. A `world` is filled with objects one by one and is a cluster at
every moment, a `census` counts its pods, and `snapshot` reads one out of a file. `kinds` says where objects
are served and what of them is kept, and `api` asks one API server: `live` once, `reflector` from then on,
`configz` each kubelet, `lease` for the lead.
Doors see a cluster through a `feed`, from a file or live, and programs for people find it by the options of
`terminal`. `pod_reader` is the one way to what somebody asks with a pod: what it says by itself (`asking`),
where it may go (`scheduling`), and what its namespace asks (`tenancy`). Who has to know of each pod hears of
it from `occupants`, with what it holds (`records`); `fingerprints` tell which pods a topology accounts for.
`placements` shows and `records` writes what a pod keeps, `bindings` binds it to a node, and `events` tell its
owner.
"""
