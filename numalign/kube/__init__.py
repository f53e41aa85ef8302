"""
The API server: the only package that knows the objects of Kubernetes and calls its API.

`client` calls one API server, `informer` follows one kind of objects, `lease` elects a leader, `bindings`
binds pods and `events` reports to their owners. `decode` turns one object into one value, `files` reads
documents, snapshots and policies from files. A `ClusterState` gets objects one by one and represents a
cluster at every moment; programs follow it through a `feed`, from a file or live.
"""
