"""A real API server, its etcd and its scheduler."""
