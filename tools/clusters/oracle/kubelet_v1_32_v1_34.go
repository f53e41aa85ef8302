//go:build v1_32 || v1_34

package main

import (
	"path/filepath"
	"time"
	_ "unsafe" // for the linkname below

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// newDeviceManager takes the path of the socket. The function that is exported has a fixed one, which would
// allow a single process, and root only.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(string, []zoneInfo, topologymanager.Store) (*devicemanager.ManagerImpl, error)

func discover(machine *machineInfo) (*topology.CPUTopology, error) {
	return topology.Discover(machine)
}

// newManagers makes the managers in the order in which the kubelet does: in it they are asked.
func newManagers(plan *plan, directory string) (*managers, error) {
	var made managers
	var err error
	options := plan.config
	if made.topology, err = topologymanager.NewManager(plan.info.Topology, options.TopologyManagerPolicy,
		options.TopologyManagerScope, options.TopologyManagerPolicyOptions); err != nil {
		return nil, err
	}
	if made.devices, err = newDeviceManager(filepath.Join(directory, "kubelet.sock"), plan.info.Topology,
		made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(made.devices)
	if made.cpu, err = cpumanager.NewManager(options.CPUManagerPolicy, options.CPUManagerPolicyOptions, time.Hour,
		plan.info, plan.reserved, plan.withheld, directory, made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(made.cpu)
	if made.memory, err = newMemoryManager(plan, directory, made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(made.memory)
	return &made, nil
}

func (m *managers) startDevices(active func() []*v1.Pod) error {
	return m.devices.Start(active, ready{}, containermap.NewContainerMap(), sets.New[string]())
}

func (m *managers) startCPU(active func() []*v1.Pod) error {
	return m.cpu.Start(active, ready{}, nil, nil, containermap.NewContainerMap())
}

func (m *managers) report(resource string, devices []device) error {
	if err := m.devices.PluginConnected(resource, &plugin{resource: resource}); err != nil {
		return err
	}
	m.devices.PluginListAndWatchReceiver(resource, listed(devices))
	return nil
}

func (m *managers) startContainer(pod *v1.Pod, container *v1.Container, id string) {
	m.cpu.AddContainer(pod, container, id)
	m.startMemoryOf(pod, container, id)
	m.topology.AddContainer(pod, container, id)
}

func (m *managers) exclusive(pod *v1.Pod, container *v1.Container) cpuset.CPUSet {
	return m.cpu.GetExclusiveCPUs(string(pod.UID), container.Name)
}

// heldByPod is nothing: these managers give to containers only.
func (m *managers) heldByPod(string) (cpuset.CPUSet, []state.Block) {
	return cpuset.New(), nil
}

func (m *managers) stopDevices() error {
	return m.devices.Stop()
}

func (m *managers) admit(attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return m.topology.Admit(attributes)
}

func (m *managers) affinity(uid, name string) topologymanager.TopologyHint {
	return m.topology.GetAffinity(uid, name)
}

func (m *managers) allocatableDevices() devicemanager.ResourceDeviceInstances {
	return m.devices.GetAllocatableDevices()
}

func (m *managers) stopContainer(id string) error {
	return m.topology.RemoveContainer(id)
}

// defaultPodLevel does nothing: the defaults of an object include those of the pod as a whole.
func defaultPodLevel(*v1.Pod) error { return nil }
