"""
The process: what a program of numalign is made of before it does anything.

Settings, log lines, metrics, certificates and an HTTP server with health, readiness and a graceful end are
the same for every program, so they are written once and know nothing of what is served. In order:

    about, clock, limits, spans -> sources -> settings -> process_settings -> logs -> metrics -> files -> tls
    -> server_settings -> in_flight -> connections -> server_state -> listener, calls, health -> server
"""
