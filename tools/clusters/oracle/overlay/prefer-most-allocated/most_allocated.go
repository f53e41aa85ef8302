package topologymanager

import (
	"fmt"
	"strconv"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// PreferMostAllocatedNUMANode is the option of the first text of KEP-6007.
const PreferMostAllocatedNUMANode = "prefer-most-allocated-numa-node"

type cpuSource interface {
	State() cpustate.Reader
	GetAllocatableCPUs() cpuset.CPUSet
}

type memorySource interface {
	State() memorystate.Reader
}

// zoneUse is what the two static managers say of the use of zones. They come after the topology manager.
type zoneUse struct {
	cpus   map[int]cpuset.CPUSet
	cpu    cpuSource
	memory memorySource
}

func newZoneUse(topology []cadvisorapi.Node) *zoneUse {
	use := &zoneUse{cpus: map[int]cpuset.CPUSet{}}
	for _, node := range topology {
		for _, core := range node.Cores {
			use.cpus[node.Id] = use.cpus[node.Id].Union(cpuset.New(core.Threads...))
		}
	}
	return use
}

func (u *zoneUse) add(provider HintProvider) {
	switch source := provider.(type) {
	case cpuSource:
		u.cpu = source
	case memorySource:
		u.memory = source
	}
}

// share is what is assigned of what is allocatable, in percent. Under policy none nothing is allocatable.
func share(assigned, allocatable int) int {
	if allocatable <= 0 {
		return 0
	}
	return assigned * 100 / allocatable
}

func (u *zoneUse) cpuShare(zone int) int {
	exclusive := cpuset.New()
	for _, containers := range u.cpu.State().GetCPUAssignments() {
		for _, cpus := range containers {
			exclusive = exclusive.Union(cpus)
		}
	}
	here := u.cpus[zone]
	return share(exclusive.Intersection(here).Size(), u.cpu.GetAllocatableCPUs().Intersection(here).Size())
}

func (u *zoneUse) memoryShare(zone int) int {
	state, found := u.memory.State().GetMachineState()[zone]
	if !found {
		return 0
	}
	memory := state.MemoryMap[v1.ResourceMemory]
	return share(int(memory.Reserved), int(memory.Allocatable))
}

// decided is 1 for the candidate, -1 for the current zone, and 0 if there is no decision. Each manager
// decides for the larger share; if both decide, they have to agree.
func (u *zoneUse) decided(current, candidate int) int {
	return sign(sign(u.cpuShare(candidate)-u.cpuShare(current)) + sign(u.memoryShare(candidate)-u.memoryShare(current)))
}

func sign(number int) int {
	return min(1, max(-1, number))
}

func (o *PolicyOptions) readPreferMostAllocated(value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("bad value for option %q: %w", PreferMostAllocatedNUMANode, err)
	}
	o.PreferMostAllocated = on
	return nil
}

// mostAllocated is the better of two hints, or nil if the option does not decide.
func (o PolicyOptions) mostAllocated(policy string, current, candidate *TopologyHint) *TopologyHint {
	if !o.PreferMostAllocated || policy != PolicySingleNumaNode || !current.Preferred || !candidate.Preferred {
		return nil
	}
	zones, others := current.NUMANodeAffinity.GetBits(), candidate.NUMANodeAffinity.GetBits()
	if len(zones) != 1 || len(others) != 1 {
		return nil
	}
	switch o.use.decided(zones[0], others[0]) {
	case 1:
		return candidate
	case -1:
		return current
	}
	return nil
}
