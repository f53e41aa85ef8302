package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// machine is the hardware, and what of it is kept from pods. Memory is in bytes, hugepages in pages.
type machine struct {
	Zones              []zone              `json:"zones"`
	ReservedSystemCPUs string              `json:"reservedSystemCPUs"`
	ReservedCPUs       int                 `json:"reservedCPUs"`
	Devices            map[string][]device `json:"devices"`
}

type zone struct {
	ID             int            `json:"id"`
	Socket         int            `json:"socket"`
	Cores          [][]int        `json:"cores"`
	UncoreCaches   [][]int        `json:"uncoreCaches"`
	Memory         uint64         `json:"memory"`
	ReservedMemory int64          `json:"reservedMemory"`
	HugePages      map[string]int `json:"hugepages"`
	Distances      []uint64       `json:"distances"`
}

type device struct {
	ID      string `json:"id"`
	Zones   []int  `json:"zones"`
	Healthy *bool  `json:"healthy"`
}

// readMachine takes no field that it does not know: a misspelt one would be a different machine.
func readMachine(text json.RawMessage) (*machine, error) {
	if len(text) == 0 {
		return nil, errors.New("there is none")
	}
	read := &machine{}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(read); err != nil {
		return nil, err
	}
	if len(read.Zones) == 0 {
		return nil, errors.New("it has no zones")
	}
	if read.ReservedSystemCPUs != "" && read.ReservedCPUs != 0 {
		return nil, errors.New("it has both reservedSystemCPUs and reservedCPUs: give one")
	}
	return read, nil
}

// info is the machine as cAdvisor shows it to a kubelet.
func (m *machine) info() (*machineInfo, error) {
	sizes, err := m.pageSizes()
	if err != nil {
		return nil, err
	}
	info := &machineInfo{}
	sockets, caches := map[int]bool{}, 0
	for _, zone := range m.Zones {
		node := zoneInfo{Id: zone.ID, Memory: zone.Memory, Distances: zone.Distances}
		node.HugePages = zone.pages(sizes)
		node.Cores, caches = zone.cores(caches)
		for _, core := range node.Cores {
			info.NumCores += len(core.Threads)
			sockets[core.SocketID] = true
		}
		info.NumPhysicalCores += len(node.Cores)
		info.MemoryCapacity += zone.Memory
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info, nil
}

// pageSizes is every size of hugepage that any zone names, in KiB. The memory manager wants each of them
// in each zone, and falls over one that is missing.
func (m *machine) pageSizes() (map[string]uint64, error) {
	sizes := map[string]uint64{}
	for _, zone := range m.Zones {
		for name := range zone.HugePages {
			size, err := resource.ParseQuantity(name)
			if err != nil {
				return nil, fmt.Errorf("zone %d: hugepages of size %q: %w", zone.ID, name, err)
			}
			sizes[name] = uint64(size.Value()) / 1024
		}
	}
	return sizes, nil
}

func (z *zone) pages(sizes map[string]uint64) []hugePagesInfo {
	var found []hugePagesInfo
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		found = append(found, hugePagesInfo{PageSize: sizes[name], NumPages: uint64(z.HugePages[name])})
	}
	return found
}

// cores numbers the caches of the zone from the first free number, which it hands back raised. A zone that
// names no uncore caches has one.
func (z *zone) cores(firstCache int) ([]coreInfo, int) {
	caches := max(len(z.UncoreCaches), 1)
	var found []coreInfo
	for number, threads := range z.Cores {
		core := coreInfo{Id: number, Threads: threads, SocketID: z.Socket}
		if cache := z.cacheOf(threads); cache >= 0 {
			core.UncoreCaches = []cacheInfo{{Id: firstCache + cache, Type: "Unified", Level: 3}}
		}
		found = append(found, core)
	}
	return found, firstCache + caches
}

func (z *zone) cacheOf(threads []int) int {
	if len(z.UncoreCaches) == 0 {
		return 0
	}
	return slices.IndexFunc(z.UncoreCaches, func(cpus []int) bool {
		return len(threads) > 0 && slices.Contains(cpus, threads[0])
	})
}
