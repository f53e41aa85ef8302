"""
The API server: the only folder that knows how Kubernetes writes things down, and that calls it.

`client` asks one API server, `informer` follows one kind of objects there, `lease` elects who leads,
`bindings` binds pods and `events` tells their owners. `decode` makes one value of one object, `files` reads
the documents, snapshots and policies that people keep in files. A `ClusterState` is filled with objects one
by one and is a cluster at every moment; programs follow it through a `feed`, from a file or live.
"""
