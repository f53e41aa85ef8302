package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

const (
	static       = "static"
	memoryStatic = "Static"
)

// amounts is how much of each resource: CPUs in thousandths, memory and hugepages in bytes, devices in pieces.
type amounts map[string]int64

// byZones is amounts by where they may come from: zone ids joined by commas, "" for nowhere in particular.
type byZones map[string]amounts

func (b byZones) add(zones []int, resource string, amount int64) {
	key := joined(zones)
	if b[key] == nil {
		b[key] = amounts{}
	}
	b[key][resource] += amount
}

// decision is the answer to a pod. Shared is what the pod holds as a whole, where the managers gave it to the
// pod and not to its containers.
type decision struct {
	Pod        string           `json:"pod"`
	Admitted   bool             `json:"admitted"`
	Reason     string           `json:"reason,omitempty"`
	Message    string           `json:"message,omitempty"`
	Containers map[string]given `json:"containers,omitempty"`
	Shared     *holding         `json:"shared,omitempty"`
	Free       byZones          `json:"free"`
}

// given is what a container got, as it stood when its pod was admitted.
type given struct {
	Affinity  []int `json:"affinity"`
	Preferred bool  `json:"preferred"`
	holding
}

// holding is exclusive CPUs, and amounts of everything.
type holding struct {
	CPUs    string  `json:"cpus,omitempty"`
	Amounts byZones `json:"amounts,omitempty"`
}

// managers are those of one kubelet. What differs from version to version stands in files named after the versions.
type managers struct {
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	devices  *devicemanager.ManagerImpl
}

// node is a kubelet's managers and the pods that it believes to be running.
type node struct {
	*managers
	plan      *plan
	directory string
	active    []*v1.Pod
	// zoneOf says to which zone a CPU belongs, zonesOf to which zones a device of a resource does.
	zoneOf  map[int]int
	zonesOf map[string]map[string][]int
}

// version is that of the kubelet within.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// refusal is what a kubelet says that does not start, or its panic.
type refusal struct{ error }

// start starts the managers as the kubelet's start does. An error that is no refusal is a mistake in the line.
func start(spec *nodeSpec, under string) (started *node, err error) {
	made := &node{}
	defer func() {
		if cause := recover(); cause != nil {
			err = refusal{fmt.Errorf("panic: %v", cause)}
		}
		if err != nil {
			started = nil
			made.stop()
		}
	}()
	if err := resetGates(); err != nil {
		return nil, err
	}
	if made.plan, err = spec.plan(); err != nil {
		return nil, err
	}
	if err := made.plan.settle(); err != nil {
		return nil, refusal{err}
	}
	if made.directory, err = os.MkdirTemp(under, ""); err != nil {
		return nil, err
	}
	made.index()
	if made.managers, err = newManagers(made.plan, made.directory); err != nil {
		return nil, refusal{err}
	}
	if err := made.run(); err != nil {
		return nil, refusal{err}
	}
	return made, nil
}

func (n *node) index() {
	n.zoneOf, n.zonesOf = map[int]int{}, map[string]map[string][]int{}
	for _, zone := range n.plan.machine.Zones {
		for _, cpu := range slices.Concat(zone.Cores...) {
			n.zoneOf[cpu] = zone.ID
		}
	}
	for resource, devices := range n.plan.machine.Devices {
		n.zonesOf[resource] = map[string][]int{}
		for _, device := range devices {
			// -1 is what plugins report of a device whose zone they do not know.
			n.zonesOf[resource][device.ID] = slices.DeleteFunc(slices.Clone(device.Zones), func(zone int) bool {
				return zone < 0
			})
		}
	}
}

func (n *node) run() error {
	if err := n.startDevices(n.activePods); err != nil {
		return err
	}
	if err := n.startCPUAlone(); err != nil {
		return err
	}
	if err := n.startMemory(n.activePods); err != nil {
		return err
	}
	for resource, devices := range n.plan.machine.Devices {
		if err := n.report(resource, devices); err != nil {
			return err
		}
	}
	return nil
}

// ready says that the kubelet has heard from all who could name pods: what is not active may be released.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

func (n *node) activePods() []*v1.Pod { return n.active }

// startCPUAlone starts the CPU manager and ends the loop with which its static policy would bring running
// containers in line with the state: there are none, and nothing may happen here at a time of its own.
// The loop looks at the active pods first of all, and goes no further.
func (n *node) startCPUAlone() error {
	loops, ended := n.plan.config.CPUManagerPolicy == static, make(chan struct{})
	err := n.startCPU(func() []*v1.Pod {
		if loops {
			loops = false
			close(ended)
			runtime.Goexit()
		}
		return n.active
	})
	if err == nil && n.plan.config.CPUManagerPolicy == static {
		<-ended
	}
	return err
}

// stop ends what the managers run and removes what they wrote.
func (n *node) stop() {
	// Nothing depends on either: the next node has managers and a folder of its own.
	if n.managers != nil {
		_ = n.stopDevices()
	}
	_ = os.RemoveAll(n.directory)
}

// complete gives the pod what an API server would have given it.
func (n *node) complete(pod *v1.Pod) error {
	if pod.Name == "" {
		return errors.New("the pod has no name")
	}
	if slices.ContainsFunc(n.active, func(other *v1.Pod) bool { return other.Name == pod.Name }) {
		return fmt.Errorf("pod %s is running already: delete it first", pod.Name)
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Name)
	}
	corev1defaults.SetObjectDefaults_Pod(pod)
	return defaultPodLevel(pod)
}

// create admits the pod and starts its containers if it may run; an error is the managers' panic.
func (n *node) create(pod *v1.Pod) (answer *decision, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = nil, fmt.Errorf("%v", cause)
		}
	}()
	// As in the kubelet, the pod is among the active ones while it is looked at.
	n.active = append(n.active, pod)
	result := n.admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.active[:len(n.active)-1]})
	if !result.Admit {
		n.active = n.active[:len(n.active)-1]
		return &decision{Pod: pod.Name, Reason: result.Reason, Message: result.Message}, nil
	}
	answer = &decision{Pod: pod.Name, Admitted: true, Containers: n.containers(pod), Shared: n.shared(pod)}
	n.startContainers(pod)
	answer.Free = n.free()
	return answer, nil
}

// forget takes the pod from the active ones; the managers notice when they look the next time.
func (n *node) forget(name string) {
	for _, pod := range n.active {
		if pod.Name == name {
			n.stopContainers(pod)
		}
	}
	n.active = slices.DeleteFunc(n.active, func(pod *v1.Pod) bool { return pod.Name == name })
}

func containersOf(pod *v1.Pod) []v1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

func containerID(pod *v1.Pod, container *v1.Container) string {
	return "oracle://" + string(pod.UID) + "/" + container.Name
}

func (n *node) startContainers(pod *v1.Pod) {
	for _, container := range containersOf(pod) {
		n.startContainer(pod, &container, containerID(pod, &container))
	}
}

func (n *node) stopContainers(pod *v1.Pod) {
	for _, container := range containersOf(pod) {
		// It fails for a container that the topology manager has not seen, which is as good.
		_ = n.stopContainer(containerID(pod, &container))
	}
}

func (n *node) containers(pod *v1.Pod) map[string]given {
	found := map[string]given{}
	for _, container := range containersOf(pod) {
		found[container.Name] = n.given(pod, &container)
	}
	return found
}

func (n *node) given(pod *v1.Pod, container *v1.Container) given {
	uid := string(pod.UID)
	hint := n.affinity(uid, container.Name)
	held := n.holding(n.exclusive(pod, container), n.blocks(uid, container.Name))
	got := given{Preferred: hint.Preferred, holding: held}
	if hint.NUMANodeAffinity != nil {
		got.Affinity = hint.NUMANodeAffinity.GetBits()
	}
	for resource, devices := range n.devices.GetDevices(uid, container.Name) {
		for id := range devices {
			got.Amounts.add(n.zonesOf[resource][id], resource, 1)
		}
	}
	return got
}

func (n *node) shared(pod *v1.Pod) *holding {
	cpus, blocks := n.heldByPod(string(pod.UID))
	if cpus.IsEmpty() && len(blocks) == 0 {
		return nil
	}
	held := n.holding(cpus, blocks)
	return &held
}

func (n *node) holding(cpus cpuset.CPUSet, blocks []state.Block) holding {
	held := holding{CPUs: cpus.String(), Amounts: byZones{}}
	n.addCPUs(held.Amounts, cpus)
	for _, block := range blocks {
		held.Amounts.add(block.NUMAAffinity, string(block.Type), int64(block.Size))
	}
	return held
}

func (n *node) addCPUs(to byZones, cpus cpuset.CPUSet) {
	for _, cpu := range cpus.UnsortedList() {
		to.add([]int{n.zoneOf[cpu]}, string(v1.ResourceCPU), 1000)
	}
}

// free is what each zone has left; a manager that is off has nothing to say. Devices of several zones stand
// under all of these, those of none nowhere.
func (n *node) free() byZones {
	left := byZones{}
	for _, zone := range n.plan.machine.Zones {
		left[strconv.Itoa(zone.ID)] = amounts{}
	}
	n.addFreeCPUs(left)
	n.addFreeMemory(left)
	n.addFreeDevices(left)
	return left
}

func (n *node) addFreeCPUs(left byZones) {
	if n.plan.config.CPUManagerPolicy != static {
		return
	}
	for _, zone := range n.zoneOf {
		left.add([]int{zone}, string(v1.ResourceCPU), 0)
	}
	n.addCPUs(left, n.cpu.State().GetDefaultCPUSet().Intersection(n.cpu.GetAllocatableCPUs()))
}

func (n *node) addFreeMemory(left byZones) {
	if n.plan.config.MemoryManagerPolicy != memoryStatic {
		return
	}
	for zone, held := range n.memory.State().GetMachineState() {
		for resource, table := range held.MemoryMap {
			left.add([]int{zone}, string(resource), int64(table.Free))
		}
	}
}

func (n *node) addFreeDevices(left byZones) {
	taken := n.takenDevices()
	for resource, zones := range n.zonesOf {
		healthy := n.allocatableDevices()[resource]
		for id, zones := range zones {
			if len(zones) == 0 {
				continue
			}
			left.add(zones, resource, 0)
			if _, works := healthy[id]; works && !taken[[2]string{resource, id}] {
				left.add(zones, resource, 1)
			}
		}
	}
}

// takenDevices is the devices of the active pods, by resource and id.
func (n *node) takenDevices() map[[2]string]bool {
	taken := map[[2]string]bool{}
	for _, pod := range n.active {
		for _, container := range containersOf(pod) {
			for resource, devices := range n.devices.GetDevices(string(pod.UID), container.Name) {
				for id := range devices {
					taken[[2]string{resource, id}] = true
				}
			}
		}
	}
	return taken
}

func joined(zones []int) string {
	var texts []string
	for _, zone := range slices.Sorted(slices.Values(zones)) {
		texts = append(texts, strconv.Itoa(zone))
	}
	return strings.Join(texts, ",")
}
