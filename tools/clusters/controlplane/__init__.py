"""A real API server with etcd, scheduler and controllers."""
