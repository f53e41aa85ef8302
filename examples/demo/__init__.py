"""
`kubectl numa demo`: the webhook on a bundled cluster.

The real webhook runs as a process of its own and is called over HTTPS as an API server calls it; nothing here
decides about a pod. In order:

    patches -> reviews -> webhook -> calls -> tally, bundled -> small, large -> signals, story
"""
