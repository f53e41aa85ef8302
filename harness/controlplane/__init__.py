"""A real API server, its etcd, its scheduler and its controllers."""
