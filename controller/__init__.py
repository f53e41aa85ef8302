"""
The controller: writes to the cluster on numalign's own behalf, and receives no requests for it.

Webhook and scorer answer requests, whose senders may be malicious, so they only read as far as possible.
Everything else, such as class labels of nodes and the CA bundle of the webhook, is written here, by one
replica at a time, which serves only health, metrics and the map.
"""
