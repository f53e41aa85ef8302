"""
Everything on a bundled cluster, for whoever wants to see before believing.

The real webhook runs as a process of its own and is called over HTTPS as an API server calls it; nothing here
decides what becomes of a pod. In order:

    patches -> reviews -> webhook -> calls -> tally, bundled -> small, large -> signals, story
"""
