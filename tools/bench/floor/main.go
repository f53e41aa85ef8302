// Command floor is what the fleet in columns is measured against: the same rule in plain Go, one node
// after another over structs that are parsed already, on one thread, as a scheduler's plugin would do it.
//
// It reads nodes and questions as JSON from the file that is named (tools/bench/floor.py writes it), and prints
// for each question how many nodes take the pod, what their scores sum up to, and the nanoseconds of each
// pass over all nodes. The rule is the kubelet's, for a pod of one container and hints of amounts alone:
//
//   - restricted: the fewest zones whose hardware could hold what is asked is the same number for every
//     resource, and some set of that many zones has all of it free; the lowest such set is taken;
//   - single-numa-node: the same, if that number is one;
//   - best-effort and none: all zones together have all of it free;
//   - mixed: each node by its own policy, where zones are not chosen.
package main

import (
	"encoding/json"
	"log"
	"math/bits"
	"os"
	"runtime"
	"sort"
	"time"
)

const (
	resources = 3 // cpu in millicores, memory in bytes, devices in pieces, in this order
	cpu       = 0
	memory    = 1
	maxZones  = 8
	half      = 4 // sums are kept for either half of the zones: two tables of 16 in place of one of 256
	milli     = 1000
	highest   = 100
)

type amounts [resources]int64

type zone struct {
	Capacity    amounts
	Allocatable amounts
	Free        amounts
}

type machine struct {
	Zones  []zone
	Layout int
	Policy string // for the policy mixed
}

type input struct {
	Nodes     []machine
	Layouts   [][][]int // from each zone to each
	Policies  []string
	Questions []amounts
	MaxZones  int // what a kubelet allows, which scores count in
	Rounds    int
}

type output struct {
	Go       string
	Policies map[string][]answer
}

type answer struct {
	Feasible   int
	Scores     *scores // nil where sets of zones are not chosen
	VerdictsNs []int64
	ScoresNs   []int64
}

// scores are sums over all nodes that take the pod.
type scores struct {
	LeastNUMANodes int64
	MostAllocated  int64
}

// node is what a pass reads, worked out once when a node changes.
type node struct {
	most      [resources][maxZones]int64  // what the largest 1, 2, ... zones could hold by hardware
	low, high [resources][1 << half]int64 // free in every set of the lower zones, and of the upper ones
	lowCPU    [1 << half]int64            // the same in whole CPUs, rounded up zone by zone
	highCPU   [1 << half]int64
	layout    *layout
	fits      func(n *node, asked *amounts) uint8 // by its own policy
}

// layout is what nodes with the same zones and distances share.
type layout struct {
	zones   int
	ofWidth [maxZones + 1][]uint8 // every set of so many zones, ascending
	near    [1 << maxZones]bool   // whether no other set of as many zones is closer
	step    int64
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) != 2 {
		log.Fatal("usage: floor FILE")
	}
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var read input
	if err := json.Unmarshal(content, &read); err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(run(&read)); err != nil {
		log.Fatal(err)
	}
}

func run(read *input) output {
	layouts := make([]*layout, len(read.Layouts))
	for at, costs := range read.Layouts {
		layouts[at] = newLayout(costs, read.MaxZones)
	}
	nodes := make([]node, len(read.Nodes))
	for at := range read.Nodes {
		nodes[at].set(&read.Nodes[at], layouts[read.Nodes[at].Layout])
	}
	read.Nodes = nil
	runtime.GC()
	found := output{Go: runtime.Version(), Policies: map[string][]answer{}}
	for _, policy := range read.Policies {
		judge, ok := policies[policy]
		if !ok {
			log.Fatalf("%q is no policy", policy)
		}
		for _, question := range read.Questions {
			found.Policies[policy] = append(found.Policies[policy], measure(nodes, question, judge, read.Rounds))
		}
	}
	return found
}

// rule is a policy: how it judges all nodes, and whether that chooses a set of zones on each.
type rule struct {
	judge  func(nodes []node, asked *amounts, sets []uint8) int
	scored bool
}

var policies = map[string]rule{
	"none":             {judge: each((*node).anywhere)},
	"best-effort":      {judge: each((*node).anywhere)},
	"restricted":       {judge: each((*node).restricted), scored: true},
	"single-numa-node": {judge: each((*node).singleNUMANode), scored: true},
	"mixed":            {judge: each((*node).byItsPolicy)},
}

var onANode = map[string]func(n *node, asked *amounts) uint8{
	"none":             (*node).anywhere,
	"best-effort":      (*node).anywhere,
	"restricted":       (*node).restricted,
	"single-numa-node": (*node).singleNUMANode,
}

func measure(nodes []node, asked amounts, by rule, rounds int) answer {
	var found answer
	sets := make([]uint8, len(nodes))
	least, most := make([]int16, len(nodes)), make([]int16, len(nodes))
	for range rounds {
		began := time.Now()
		found.Feasible = by.judge(nodes, &asked, sets)
		found.VerdictsNs = append(found.VerdictsNs, time.Since(began).Nanoseconds())
		if !by.scored {
			continue
		}
		began = time.Now()
		by.judge(nodes, &asked, sets)
		score(nodes, &asked, sets, least, most)
		found.ScoresNs = append(found.ScoresNs, time.Since(began).Nanoseconds())
	}
	if by.scored {
		found.Scores = &scores{sum(least), sum(most)}
	}
	return found
}

// each fills sets with the zones that the pod gets on each node, none where it is refused.
func each(fits func(n *node, asked *amounts) uint8) func(nodes []node, asked *amounts, sets []uint8) int {
	return func(nodes []node, asked *amounts, sets []uint8) int {
		feasible := 0
		for at := range nodes {
			sets[at] = fits(&nodes[at], asked)
			if sets[at] != 0 {
				feasible++
			}
		}
		return feasible
	}
}

// anywhere is all zones, if they have enough together.
func (n *node) anywhere(asked *amounts) uint8 {
	if every := uint8(1<<n.layout.zones - 1); n.has(every, asked) {
		return every
	}
	return 0
}

func (n *node) restricted(asked *amounts) uint8 {
	if width := n.width(asked); width > 0 {
		return n.lowest(width, asked)
	}
	return 0
}

func (n *node) singleNUMANode(asked *amounts) uint8 {
	if n.width(asked) == 1 {
		return n.lowest(1, asked)
	}
	return 0
}

func (n *node) byItsPolicy(asked *amounts) uint8 { return n.fits(n, asked) }

// width is the number of zones that every resource prefers, 0 if they prefer different ones.
func (n *node) width(asked *amounts) int {
	width := 0
	for r := range asked {
		mine := n.fewest(r, asked[r])
		if mine == 0 || width != 0 && mine != width {
			return 0
		}
		width = mine
	}
	return width
}

func (n *node) fewest(r int, asked int64) int {
	for at, most := range n.most[r][:n.layout.zones] {
		if most >= asked {
			return at + 1
		}
	}
	return 0
}

func (n *node) lowest(width int, asked *amounts) uint8 {
	for _, set := range n.layout.ofWidth[width] {
		if n.has(set, asked) {
			return set
		}
	}
	return 0
}

func (n *node) has(set uint8, asked *amounts) bool {
	low, high := set&(1<<half-1), set>>half
	return n.low[0][low]+n.high[0][high] >= asked[0] &&
		n.low[1][low]+n.high[1][high] >= asked[1] &&
		n.low[2][low]+n.high[2][high] >= asked[2]
}

// score fills what the nodes that take the pod score by either strategy, and -1 elsewhere.
func score(nodes []node, asked *amounts, sets []uint8, least, most []int16) {
	whole := *asked
	whole[cpu] = (whole[cpu] + milli - 1) / milli
	for at := range nodes {
		set := sets[at]
		if set == 0 {
			least[at], most[at] = -1, -1
			continue
		}
		least[at] = int16(nodes[at].layout.leastNUMANodes(set))
		most[at] = int16(nodes[at].mostAllocated(set, &whole))
	}
}

func (l *layout) leastNUMANodes(set uint8) int64 {
	value := highest - int64(bits.OnesCount8(set))*l.step
	if l.near[set] {
		value += l.step / 2
	}
	return max(0, value)
}

func (n *node) mostAllocated(set uint8, asked *amounts) int64 {
	low, high := set&(1<<half-1), set>>half
	free := amounts{
		n.lowCPU[low] + n.highCPU[high],
		n.low[1][low] + n.high[1][high],
		n.low[2][low] + n.high[2][high],
	}
	var total int64
	for r := range free {
		if free[r] > 0 && asked[r] <= free[r] {
			total += asked[r] * highest / free[r]
		}
	}
	return total / resources
}

func sum(scores []int16) int64 {
	var total int64
	for _, each := range scores {
		if each > 0 {
			total += int64(each)
		}
	}
	return total
}

func (n *node) set(read *machine, shared *layout) {
	zones, known := read.Zones, false
	if n.fits, known = onANode[read.Policy]; !known {
		log.Fatalf("%q is no policy of a node", read.Policy)
	}
	if len(zones) != shared.zones {
		log.Fatalf("a node has %d zones, and the distances are those of %d", len(zones), shared.zones)
	}
	n.layout = shared
	for r := range resources {
		hardware := make([]int64, len(zones))
		for at := range zones {
			// The memory manager counts what it may give out; the others count all that is there.
			if hardware[at] = zones[at].Capacity[r]; r == memory {
				hardware[at] = zones[at].Allocatable[r]
			}
		}
		sort.Slice(hardware, func(i, j int) bool { return hardware[i] > hardware[j] })
		var total int64
		for at, each := range hardware {
			total += each
			n.most[r][at] = total
		}
		n.low[r], n.high[r] = sums(zones, func(z *zone) int64 { return z.Free[r] })
	}
	n.lowCPU, n.highCPU = sums(zones, func(z *zone) int64 { return (z.Free[cpu] + milli - 1) / milli })
}

// sums are those of every set of the lower and of the upper zones.
func sums(zones []zone, of func(*zone) int64) (low, high [1 << half]int64) {
	for at := range zones {
		table := &low
		if at >= half {
			table = &high
		}
		bit := 1 << (at % half)
		for set := range table {
			if set&bit != 0 {
				table[set] += of(&zones[at])
			}
		}
	}
	return low, high
}

func newLayout(costs [][]int, allowed int) *layout {
	zones := len(costs)
	if zones == 0 || zones > maxZones {
		log.Fatalf("%d zones: from 1 to %d can be measured", zones, maxZones)
	}
	made := &layout{zones: zones, step: highest / int64(allowed)}
	var nearest [maxZones + 1]int
	var distances [1 << maxZones]int
	for set := 1; set < 1<<zones; set++ {
		width := bits.OnesCount(uint(set))
		distances[set] = distance(costs, set)
		if len(made.ofWidth[width]) == 0 || distances[set] < nearest[width] {
			nearest[width] = distances[set]
		}
		made.ofWidth[width] = append(made.ofWidth[width], uint8(set))
	}
	for set := 1; set < 1<<zones; set++ {
		made.near[set] = distances[set] == nearest[bits.OnesCount(uint(set))]
	}
	return made
}

func distance(costs [][]int, set int) int {
	total := 0
	for here := range costs {
		for there, cost := range costs[here] {
			if set>>here&1 == 1 && set>>there&1 == 1 {
				total += cost
			}
		}
	}
	return total
}
