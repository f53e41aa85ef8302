"""Draw scenarios, have the managers of a kubelet decide them, and compare the rules with that."""
