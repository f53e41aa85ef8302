"""
What numalign writes of its own accord: nobody comes in.

Webhook and scorer answer those who call, and whoever calls may mean harm; so they only read, as far as they
can. The classes of nodes, and the certificate by which API servers trust the webhook, are written here, by
one replica at a time, which serves nothing but its health and its metrics.
"""
