"""The agent next to a kubelet: reads the node's hardware and what its pods hold, and publishes it."""
