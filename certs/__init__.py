"""
Certificates: who vouches for a webhook, and what it shows.

An API server calls a webhook over TLS only, and trusts what the webhook's configuration names. This package
makes both halves, the authority and the serving pair.
"""
