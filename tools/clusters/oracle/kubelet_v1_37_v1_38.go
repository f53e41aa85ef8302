//go:build v1_37 || v1_38

package main

import (
	"context"
	"path/filepath"
	"time"
	_ "unsafe" // for the linkname below

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// newDeviceManager takes the path of the socket. The function that is exported has a fixed one, which would
// allow a single process, and root only.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(klog.Logger, string, []zoneInfo, topologymanager.Store) (*devicemanager.ManagerImpl, error)

func discover(machine *machineInfo) (*topology.CPUTopology, error) {
	return topology.Discover(klog.Background(), machine)
}

// newManagers makes the managers in the order in which the kubelet does: in it they are asked.
func newManagers(plan *plan, directory string) (*managers, error) {
	var made managers
	var err error
	log := klog.Background()
	options := plan.config
	if made.topology, err = topologymanager.NewManager(log, plan.info.Topology, options.TopologyManagerPolicy,
		options.TopologyManagerScope, options.TopologyManagerPolicyOptions); err != nil {
		return nil, err
	}
	if made.devices, err = newDeviceManager(log, filepath.Join(directory, "kubelet.sock"), plan.info.Topology,
		made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(log, made.devices)
	if made.cpu, err = cpumanager.NewManager(log, options.CPUManagerPolicy, options.CPUManagerPolicyOptions,
		time.Hour, plan.info, plan.reserved, plan.withheld, directory, made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(log, made.cpu)
	if made.memory, err = memorymanager.NewManager(log, options.MemoryManagerPolicy, plan.info,
		plan.withheld, options.ReservedMemory, directory, made.topology); err != nil {
		return nil, err
	}
	made.topology.AddHintProvider(log, made.memory)
	return &made, nil
}

func (m *managers) startDevices(active func() []*v1.Pod) error {
	return m.devices.Start(klog.Background(), active, ready{}, containermap.NewContainerMap(), sets.New[string]())
}

func (m *managers) startCPU(active func() []*v1.Pod) error {
	return m.cpu.Start(context.Background(), active, ready{}, nil, nil, containermap.NewContainerMap())
}

func (m *managers) startMemory(active func() []*v1.Pod) error {
	return m.memory.Start(context.Background(), active, ready{}, nil, nil, containermap.NewContainerMap())
}

func (m *managers) report(resource string, devices []device) error {
	if err := m.devices.PluginConnected(context.Background(), resource, &plugin{resource: resource}); err != nil {
		return err
	}
	m.devices.PluginListAndWatchReceiver(klog.Background(), resource, listed(devices))
	return nil
}

func (m *managers) startContainer(pod *v1.Pod, container *v1.Container, id string) {
	m.cpu.AddContainer(klog.Background(), pod, container, id)
	m.memory.AddContainer(klog.Background(), pod, container, id)
	m.topology.AddContainer(klog.Background(), pod, container, id)
}

// exclusive leaves out the CPUs of the pod that containers share.
func (m *managers) exclusive(pod *v1.Pod, container *v1.Container) cpuset.CPUSet {
	if m.cpu.GetResourceIsolationLevel(pod, container) != qos.ResourceIsolationContainer {
		return cpuset.New()
	}
	return m.cpu.GetExclusiveCPUs(string(pod.UID), container.Name)
}

func (m *managers) heldByPod(uid string) (cpuset.CPUSet, []state.Block) {
	cpus, _ := m.cpu.State().GetPodCPUSet(uid)
	return cpus, m.memory.State().GetPodMemoryBlocks(uid)
}

func (m *managers) blocks(uid, name string) []state.Block {
	return m.memory.GetMemory(klog.Background(), uid, name)
}

func (m *managers) stopDevices() error {
	return m.devices.Stop(klog.Background())
}

func (m *managers) admit(attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	attributes.Operation = lifecycle.AddOperation
	return m.topology.Admit(context.Background(), attributes)
}

func (m *managers) affinity(uid, name string) topologymanager.TopologyHint {
	return m.topology.GetAffinity(klog.Background(), uid, name)
}

func (m *managers) allocatableDevices() devicemanager.ResourceDeviceInstances {
	return m.devices.GetAllocatableDevices(klog.Background())
}

func (m *managers) stopContainer(id string) error {
	return m.topology.RemoveContainer(klog.Background(), id)
}

// defaultPodLevel gives the pod what the API server's registry does, after mutating webhooks.
func defaultPodLevel(pod *v1.Pod) error {
	stored := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, stored, nil); err != nil {
		return err
	}
	podutil.DefaultPodLevelResources(stored)
	return corev1.Convert_core_Pod_To_v1_Pod(stored, pod, nil)
}
