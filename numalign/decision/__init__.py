"""Would the pod run here as its owner means it, how good is it, and in which words."""
