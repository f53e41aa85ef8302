"""
`kubectl numa demo`: the webhook on a bundled cluster.

The real webhook runs as a process of its own, and is called over HTTPS as by an API server; nothing here
decides about a pod. In order:

    patches -> reviews -> webhook -> calls -> tally, bundled -> small, large -> signals, story
"""
