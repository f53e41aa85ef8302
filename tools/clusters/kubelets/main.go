// A companion of one kubelet: the container runtime that it talks to, and the device plugins that register
// with it. It is told of devices on standard input, a JSON object a line, and answers each line with one; the first answer says that the runtime serves.
// When standard input ends, so does the program: it cannot outlive who started it.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
)

// longestLine is enough for tens of thousands of devices.
const longestLine = 16 << 20

// order is the whole state of the devices by resource; a resource that is left out has no plugin any more.
type order struct {
	Devices map[string][]device `json:"devices"`
}

// answer says whether all plugins are registered with a kubelet.
type answer struct {
	Registered bool   `json:"registered"`
	Error      string `json:"error,omitempty"`
}

func main() {
	socket := flag.String("runtime", "", "the socket on which to serve as the container runtime")
	folder := flag.String("plugins", "", "the kubelet's folder of device plugins")
	flag.Parse()
	runtime, err := serveRuntime(*socket)
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Stop()
	shelf := newShelf(*folder)
	go shelf.follow()
	listen(shelf)
}

// listen obeys until standard input ends.
func listen(shelf *shelf) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := json.NewEncoder(os.Stdout)
	for said := (answer{}); answers.Encode(said) == nil && lines.Scan(); {
		said = obey(shelf, lines.Bytes())
	}
}

func obey(shelf *shelf, line []byte) answer {
	told := order{}
	if err := json.Unmarshal(line, &told); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Registered: shelf.hold(told.Devices)}
}
