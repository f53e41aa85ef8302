// Command oracle is the kubelet's own resource managers behind a line protocol.
//
// A model of the kubelet is only as good as what its author knew. So this program hands pods to the topology,
// CPU, memory and device managers of the version of Kubernetes it is built with, and says what they did. Only
// what cmd/kubelet does before it makes these managers is restated, in config.go: which CPUs and how much
// memory it keeps from pods. One JSON value a line on standard input; an answer is written before the next
// line is read:
//
//	{"node": {"name", "kubeletConfig", "machine"}}   start over: {"node", "version"} or {"node", "refused"}
//	{"create": <v1.Pod>}                             {"pod", "admitted", ...}, or {"pod", "panicked"}
//	{"delete": "<pod name>"}                         no answer
//
// A line that cannot be taken is answered with {"error"}. After a refusal or a panic there is no node until
// the next node line. No part of it needs root, and any number of these programs run beside one another.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// line is what can be asked. Exactly one field is set.
type line struct {
	Node   *nodeSpec `json:"node"`
	Create *v1.Pod   `json:"create"`
	Delete *string   `json:"delete"`
}

type started struct {
	Node    string `json:"node"`
	Version string `json:"version"`
}

type refused struct {
	Node    string `json:"node"`
	Refused string `json:"refused"`
}

type panicked struct {
	Pod      string `json:"pod"`
	Panicked string `json:"panicked"`
}

type mistake struct {
	Error string `json:"error"`
}

// session is the conversation: at most one node at a time. unable says why there is none.
type session struct {
	directory string
	node      *node
	unable    error
}

func main() {
	verbosity := flag.Int("v", -1, "write the kubelet's log to standard error, up to this level")
	withParent := flag.Bool("with-parent", false, "end when the process that started this one is gone")
	flag.Parse()
	if *withParent {
		go endWithout(os.Getppid())
	}
	if err := run(*verbosity); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-oracle:", err)
		os.Exit(1)
	}
}

// endWithout is for a merge that does not end: it would go on when nobody waits for it any more.
func endWithout(parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	os.Exit(1)
}

func run(verbosity int) error {
	if err := logUpTo(verbosity); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	talk := session{directory: directory, unable: errors.New("no node yet: send a node line first")}
	return talk.converse(os.Stdin, os.Stdout)
}

func logUpTo(verbosity int) error {
	if verbosity < 0 {
		klog.SetLogger(logr.Discard())
		return nil
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags.Set("v", fmt.Sprint(verbosity))
}

func (s *session) converse(input io.Reader, output io.Writer) error {
	lines, answers := bufio.NewReader(input), json.NewEncoder(output)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			if answer := s.answerTo(text, number); answer != nil {
				if err := answers.Encode(answer); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			s.leave()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) answerTo(text []byte, number int) any {
	answer, err := s.handle(text)
	if err != nil {
		return mistake{fmt.Sprintf("line %d: %v", number, err)}
	}
	return answer
}

func (s *session) handle(text []byte) (any, error) {
	var asked line
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, fmt.Errorf("this is not a line of the protocol: %w", err)
	}
	switch {
	case asked.Node != nil && asked.Create == nil && asked.Delete == nil:
		return s.enter(asked.Node)
	case asked.Create != nil && asked.Node == nil && asked.Delete == nil:
		return s.create(asked.Create)
	case asked.Delete != nil && asked.Node == nil && asked.Create == nil:
		return nil, s.delete(*asked.Delete)
	}
	return nil, errors.New(`want exactly one of "node", "create" and "delete"`)
}

func (s *session) enter(spec *nodeSpec) (any, error) {
	s.leave()
	entered, err := start(spec, s.directory)
	var no refusal
	switch {
	case errors.As(err, &no):
		s.unable = fmt.Errorf("the kubelet of node %s did not start: send a node line", spec.Name)
		return refused{spec.Name, no.Error()}, nil
	case err != nil:
		s.unable = fmt.Errorf("the last node line was wrong (%w): send another", err)
		return nil, err
	}
	s.node = entered
	return started{spec.Name, version()}, nil
}

func (s *session) leave() {
	if s.node != nil {
		s.node.stop()
	}
	s.node = nil
}

func (s *session) create(pod *v1.Pod) (any, error) {
	if s.node == nil {
		return nil, s.unable
	}
	if err := s.node.complete(pod); err != nil {
		return nil, err
	}
	answer, err := s.node.create(pod)
	if err != nil {
		s.leave()
		s.unable = fmt.Errorf("the kubelet panicked over pod %s: send a node line", pod.Name)
		return panicked{pod.Name, err.Error()}, nil
	}
	return answer, nil
}

// delete answers nothing, as a pod may well be deleted that was never admitted.
func (s *session) delete(name string) error {
	if s.node != nil {
		s.node.forget(name)
	}
	return nil
}
