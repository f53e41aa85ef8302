"""
Certificates: the CA that signs a webhook's certificate, and the certificate that it serves.

An API server calls a webhook over TLS only, and trusts what the webhook's configuration names. This package
makes both halves, the authority and the serving pair.
"""
