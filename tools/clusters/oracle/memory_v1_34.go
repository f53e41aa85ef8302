//go:build v1_34

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

func newMemoryManager(plan *plan, directory string, affinity topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(context.Background(), plan.config.MemoryManagerPolicy, plan.info, plan.withheld,
		plan.config.ReservedMemory, directory, affinity)
}

func (m *managers) startMemory(active func() []*v1.Pod) error {
	return m.memory.Start(context.Background(), active, ready{}, nil, nil, containermap.NewContainerMap())
}

func (m *managers) startMemoryOf(pod *v1.Pod, container *v1.Container, id string) {
	m.memory.AddContainer(context.Background(), pod, container, id)
}

func (m *managers) blocks(uid, name string) []state.Block {
	return m.memory.GetMemory(context.Background(), uid, name)
}
