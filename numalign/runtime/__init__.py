"""
The process: the common parts of all programs of numalign.

Settings, log lines, metrics, certificates and an HTTP server with health, readiness and graceful shutdown are
the same for every program, so they are written once and independent of what is served. In order:

    about, clock -> sources -> settings -> logs -> metrics -> files -> tls, in_flight -> server_settings
    -> connections, cooperative -> server_state -> listener -> calls -> server
"""
