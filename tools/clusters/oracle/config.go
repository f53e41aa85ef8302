package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/utils/cpuset"
)

// optionGates let every option of a policy be set, however new it is.
var optionGates = []featuregate.Feature{
	"CPUManagerPolicyOptions", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions",
	"TopologyManagerPolicyOptions", "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions",
}

// pristine is the gates as this version of the kubelet has them before any configuration.
var pristine = utilfeature.DefaultMutableFeatureGate.DeepCopy()

// nodeSpec is a node line. Fields that are meant for other readers are passed over.
type nodeSpec struct {
	Name          string          `json:"name"`
	KubeletConfig json.RawMessage `json:"kubeletConfig"`
	Machine       json.RawMessage `json:"machine"`
}

// plan is what a kubelet is started with.
type plan struct {
	machine  *machine
	info     *machineInfo
	config   *kubeletconfig.KubeletConfiguration
	reserved cpuset.CPUSet
	withheld v1.ResourceList
}

// plan reads the node line; an error is a mistake of who wrote it, and not the kubelet's refusal.
func (s *nodeSpec) plan() (*plan, error) {
	machine, err := readMachine(s.Machine)
	if err != nil {
		return nil, fmt.Errorf("node %q: machine: %w", s.Name, err)
	}
	info, err := machine.info()
	if err != nil {
		return nil, fmt.Errorf("node %q: machine: %w", s.Name, err)
	}
	config, err := decode(s.KubeletConfig)
	if err != nil {
		return nil, fmt.Errorf("node %q: kubeletConfig: %w", s.Name, err)
	}
	return &plan{machine: machine, info: info, config: config}, nil
}

// decode is the kubelet's own reading of its configuration file, with its defaults, and with its panic over a
// gate that it does not know. Unlike the kubelet, which warns of an unknown field and goes on, it refuses one.
func decode(text json.RawMessage) (*kubeletconfig.KubeletConfiguration, error) {
	// The host of this program is not the node: what its cgroups are must not matter.
	fields := map[string]any{"failCgroupV1": false}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
	}
	fields["apiVersion"], fields["kind"] = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return nil, err
	}
	config := &kubeletconfig.KubeletConfiguration{}
	return config, runtime.DecodeInto(codecs.UniversalDecoder(), whole, config)
}

// settle finishes the configuration as the kubelet's start does; an error is its refusal.
func (p *plan) settle() error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(p.config.FeatureGates); err != nil {
		return err
	}
	p.reserveMemory()
	if err := p.reserveCPUs(); err != nil {
		return err
	}
	return validation.ValidateKubeletConfiguration(p.config, utilfeature.DefaultFeatureGate)
}

// resetGates replaces the gates of the process: what an earlier node opened is shut again.
func resetGates() error {
	gates := pristine.DeepCopy()
	utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = gates, gates
	known := gates.GetAll()
	for _, name := range optionGates {
		if spec, found := known[name]; found && !spec.LockToDefault {
			if err := gates.SetFromMap(map[string]bool{string(name): true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserveMemory tells the memory manager of each zone what is reserved there, and the node the sum: a
// kubelet whose two figures differ does not start.
func (p *plan) reserveMemory() {
	sum := int64(0)
	for _, zone := range p.machine.Zones {
		if zone.ReservedMemory == 0 {
			continue
		}
		sum += zone.ReservedMemory
		p.config.ReservedMemory = append(p.config.ReservedMemory, kubeletconfig.MemoryReservation{
			NumaNode: int32(zone.ID),
			Limits:   v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(zone.ReservedMemory, resource.BinarySI)},
		})
	}
	p.withheld = v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(sum, resource.BinarySI)}
}

// reserveCPUs takes the CPUs by name where they are named, else leaves their choice to the CPU manager.
func (p *plan) reserveCPUs() error {
	count := p.machine.ReservedCPUs
	if p.machine.ReservedSystemCPUs != "" {
		named, err := cpuset.Parse(p.machine.ReservedSystemCPUs)
		if err != nil {
			return fmt.Errorf("reservedSystemCPUs is no list of CPUs: %w", err)
		}
		all, err := discover(p.info)
		if err != nil {
			return fmt.Errorf("the CPUs of this machine cannot be told apart: %w", err)
		}
		if !named.IsSubsetOf(all.CPUDetails.CPUs()) {
			return fmt.Errorf("reservedSystemCPUs %s are not all among the CPUs of this machine: %s", named, all.CPUDetails.CPUs())
		}
		p.reserved, count = named, named.Size()
		p.config.ReservedSystemCPUs = named.String()
	}
	p.config.SystemReserved = map[string]string{"cpu": strconv.Itoa(count)}
	p.withheld[v1.ResourceCPU] = *resource.NewQuantity(int64(count), resource.DecimalSI)
	return nil
}
