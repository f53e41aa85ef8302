"""
What the kubelet does: its three managers, the merge of their hints, and the admission of a pod.

`cpu`, `memory` and `device` are modules of the same few functions: the state of a node (`of`), the hints for
a step (`offers`), the fewest zones by hardware (`width`), and `allocate`. `take` and `distribute` choose
among CPUs, `assume` is the machine behind a node of which only amounts are known. `merge` joins hints under a
policy; `admit` walks a pod through all of them, `bubble` where it is served as a whole; `books` keeps what is
left. `observe` puts what was seen in place of what was predicted, and `start` refuses what no kubelet starts
with.

A step is *given* something of what is *free*; an init container's share is *reusable* by later containers; a
pod *keeps* what is still out once its containers run; what the managers have down for it, and give back when
it is dropped, is what it *holds*.
"""
