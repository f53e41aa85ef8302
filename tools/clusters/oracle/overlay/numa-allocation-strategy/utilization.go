package topologymanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

const (
	NUMAAllocationStrategy = "numa-allocation-strategy"
	NUMAScoreWeights       = "numa-score-weights"

	noStrategy     = "none"
	mostAllocated  = "most-allocated"
	leastAllocated = "least-allocated"

	usualWeight   = 1
	largestWeight = 100
)

// utilizationOptions are the two options of the second text of KEP-6007.
type utilizationOptions struct {
	strategy string
	weights  map[string]int64
}

func (o *utilizationOptions) read(name, value string) error {
	if name == NUMAScoreWeights {
		return o.readWeights(value)
	}
	if !slices.Contains([]string{"", noStrategy, mostAllocated, leastAllocated}, value) {
		return fmt.Errorf("bad value for option %q: %q", name, value)
	}
	o.strategy = value
	return nil
}

// readWeights reads entries such as cpu=3, joined by commas; empty entries are passed over.
func (o *utilizationOptions) readWeights(value string) error {
	o.weights = map[string]int64{}
	for _, entry := range strings.Split(value, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		resource, number, _ := strings.Cut(entry, "=")
		weight, err := strconv.Atoi(strings.TrimSpace(number))
		if resource = strings.TrimSpace(resource); resource == "" || err != nil || weight < 0 || weight > largestWeight {
			return fmt.Errorf("bad value for option %q: %q", NUMAScoreWeights, entry)
		}
		o.weights[resource] = int64(weight)
	}
	return nil
}

// hintsOf is the hints with the name of their resource.
func hintsOf(resource string, hints []TopologyHint) []TopologyHint {
	named := slices.Clone(hints)
	for at := range named {
		named[at].resource = resource
	}
	return named
}

// weightedScore is the weighted mean of the scores of a permutation, rounded down; 0 if nothing has one.
func weightedScore(permutation []TopologyHint, weights map[string]int64) int64 {
	var sum, total int64
	for _, hint := range permutation {
		if hint.NUMANodeAffinity == nil || hint.Score <= 0 {
			continue
		}
		weight, named := weights[hint.resource]
		if !named {
			weight = usualWeight
		}
		sum, total = sum+weight*hint.Score, total+weight
	}
	if total == 0 {
		return 0
	}
	return sum / total
}

// decide is the better of two hints, or nil if the strategy does not decide: it does so only between sets of
// zones of the same width and, with prefer-closest-numa-nodes, at the same mean distance.
func (o utilizationOptions) decide(info *NUMAInfo, closest bool, current, candidate *TopologyHint) *TopologyHint {
	if !alike(info, closest, current.NUMANodeAffinity, candidate.NUMANodeAffinity) {
		return nil
	}
	if current.Score == 0 || candidate.Score == 0 || current.Score == candidate.Score {
		return nil
	}
	fuller, emptier := current, candidate
	if candidate.Score > current.Score {
		fuller, emptier = candidate, current
	}
	switch o.strategy {
	case mostAllocated:
		return fuller
	case leastAllocated:
		return emptier
	}
	return nil
}

func alike(info *NUMAInfo, closest bool, one, other bitmask.BitMask) bool {
	if one.Count() != other.Count() {
		return false
	}
	distances := info.NUMADistances
	return !closest || distances.CalculateAverageFor(one) == distances.CalculateAverageFor(other)
}
