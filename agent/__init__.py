"""The agent beside a kubelet: reads what its node is and what its pods hold, and publishes it."""
