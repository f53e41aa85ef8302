"""
Pods behind the gate `numalign.io/placement`: reserve zones, pin the pod, lift the gate.

In clusters whose scheduler cannot call an extender, a pod waits behind a scheduling gate until its zones are
reserved. Then one write pins it to its node and lifts the gate, and the cluster's own scheduler has a single
node left to bind it to. No gate stays: a pod that gets no reservation has its gate lifted without a pin.
"""
