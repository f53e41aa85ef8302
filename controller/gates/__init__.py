"""
Pods behind the gate `numalign.io/placement`: reserve, pin, lift.

Where no scheduler can be told to ask anybody, a pod waits behind a scheduling gate until its zones are
reserved. Then one write pins it to its node and lifts the gate, and the cluster's own scheduler has a single
node left to bind it to. No gate stays: a pod that nothing can be reserved for is let go as it is.
"""
