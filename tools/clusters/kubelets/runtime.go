package main

import (
	"context"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	kubeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
)

// tidyPeriod is how often the calls are forgotten that the fake remembers for its own tests.
const tidyPeriod = 10 * time.Second

// runtime is the fake with which Kubernetes tests its kubelet, and three things that the fake does not do:
// containers end by themselves, resources that are updated show in the status, and its memory does not grow.
type runtime struct {
	*fake.RemoteRuntime
	mutex sync.Mutex
	// lives is for how long containers run that end by themselves.
	lives map[string]time.Duration
}

// serveRuntime returns when the socket can be connected to.
func serveRuntime(socket string) (*grpc.Server, error) {
	if err := os.RemoveAll(socket); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	served := &runtime{RemoteRuntime: fake.NewFakeRemoteRuntime(), lives: map[string]time.Duration{}}
	served.RuntimeService.FakeStatus = &kubeapi.RuntimeStatus{Conditions: []*kubeapi.RuntimeCondition{
		{Type: kubeapi.RuntimeReady, Status: true},
		{Type: kubeapi.NetworkReady, Status: true},
	}}
	// An image without a size is none to a kubelet.
	served.ImageService.SetFakeImageSize(1)
	server := grpc.NewServer()
	kubeapi.RegisterRuntimeServiceServer(server, served)
	kubeapi.RegisterImageServiceServer(server, served)
	go server.Serve(listener)
	go served.tidy()
	return server, nil
}

func (r *runtime) CreateContainer(
	ctx context.Context, request *kubeapi.CreateContainerRequest,
) (*kubeapi.CreateContainerResponse, error) {
	made, err := r.RemoteRuntime.CreateContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	if life, ends := lifetime(request.Config); ends {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.lives[made.ContainerId] = life
	}
	return made, nil
}

func (r *runtime) StartContainer(
	ctx context.Context, request *kubeapi.StartContainerRequest,
) (*kubeapi.StartContainerResponse, error) {
	started, err := r.RemoteRuntime.StartContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if life, ends := r.lives[request.ContainerId]; ends {
		time.AfterFunc(life, func() { r.finish(request.ContainerId) })
	}
	return started, nil
}

// killed is the exit code of a container that somebody else ended, with SIGKILL: a Job does not take it for success.
const killed = 128 + 9

// StopContainer leaves a container that has ended as it ended.
func (r *runtime) StopContainer(
	ctx context.Context, request *kubeapi.StopContainerRequest,
) (*kubeapi.StopContainerResponse, error) {
	if r.ended(request.ContainerId) {
		return &kubeapi.StopContainerResponse{}, nil
	}
	stopped, err := r.RemoteRuntime.StopContainer(ctx, request)
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	if held, known := r.RuntimeService.Containers[request.ContainerId]; known {
		held.ExitCode, held.Reason = killed, "Error"
	}
	return stopped, err
}

func (r *runtime) RemoveContainer(
	ctx context.Context, request *kubeapi.RemoveContainerRequest,
) (*kubeapi.RemoveContainerResponse, error) {
	r.mutex.Lock()
	delete(r.lives, request.ContainerId)
	r.mutex.Unlock()
	return r.RemoteRuntime.RemoveContainer(ctx, request)
}

// UpdateContainerResources keeps what it is told; a field that is zero is not told.
func (r *runtime) UpdateContainerResources(
	ctx context.Context, request *kubeapi.UpdateContainerResourcesRequest,
) (*kubeapi.UpdateContainerResourcesResponse, error) {
	r.RuntimeService.Lock()
	if held, known := r.RuntimeService.Containers[request.ContainerId]; known {
		held.LinuxResources = merged(held.LinuxResources, request.Linux)
	}
	r.RuntimeService.Unlock()
	return r.RemoteRuntime.UpdateContainerResources(ctx, request)
}

// ContainerStatus says what the container has, which the kubelet compares with what it was told to give.
func (r *runtime) ContainerStatus(
	ctx context.Context, request *kubeapi.ContainerStatusRequest,
) (*kubeapi.ContainerStatusResponse, error) {
	found, err := r.RemoteRuntime.ContainerStatus(ctx, request)
	if err != nil {
		return nil, err
	}
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	if held, known := r.RuntimeService.Containers[request.ContainerId]; known {
		found.Status.Resources = &kubeapi.ContainerResources{Linux: held.LinuxResources}
	}
	return found, nil
}

func (r *runtime) ended(container string) bool {
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	held, known := r.RuntimeService.Containers[container]
	return known && held.State == kubeapi.ContainerState_CONTAINER_EXITED
}

// finish ends a container with code 0.
func (r *runtime) finish(container string) {
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	held, known := r.RuntimeService.Containers[container]
	if known && held.State == kubeapi.ContainerState_CONTAINER_RUNNING {
		held.State = kubeapi.ContainerState_CONTAINER_EXITED
		held.FinishedAt = time.Now().UnixNano()
		held.Reason = "Completed"
	}
}

func (r *runtime) tidy() {
	for range time.Tick(tidyPeriod) {
		r.RuntimeService.Lock()
		r.RuntimeService.Called = nil
		r.RuntimeService.Unlock()
		r.ImageService.Lock()
		r.ImageService.Called = nil
		r.ImageService.Unlock()
	}
}

// lifetime is how long a container runs, if it ends by itself: one of the image `exit` or with the command
// `exit` ends at once, `sleep N` after N seconds.
func lifetime(config *kubeapi.ContainerConfig) (time.Duration, bool) {
	command := append(append([]string{}, config.Command...), config.Args...)
	switch {
	case config.GetImage().GetUserSpecifiedImage() == "exit" || len(command) == 1 && command[0] == "exit":
		return 0, true
	case len(command) == 2 && command[0] == "sleep":
		seconds, err := strconv.ParseFloat(command[1], 64)
		return time.Duration(seconds * float64(time.Second)), err == nil
	}
	return 0, false
}

func merged(held, told *kubeapi.LinuxContainerResources) *kubeapi.LinuxContainerResources {
	if held == nil || told == nil {
		return told
	}
	return &kubeapi.LinuxContainerResources{
		CpuPeriod:              firstSet(told.CpuPeriod, held.CpuPeriod),
		CpuQuota:               firstSet(told.CpuQuota, held.CpuQuota),
		CpuShares:              firstSet(told.CpuShares, held.CpuShares),
		MemoryLimitInBytes:     firstSet(told.MemoryLimitInBytes, held.MemoryLimitInBytes),
		OomScoreAdj:            firstSet(told.OomScoreAdj, held.OomScoreAdj),
		CpusetCpus:             firstSet(told.CpusetCpus, held.CpusetCpus),
		CpusetMems:             firstSet(told.CpusetMems, held.CpusetMems),
		HugepageLimits:         held.HugepageLimits,
		Unified:                maps.Clone(held.Unified),
		MemorySwapLimitInBytes: firstSet(told.MemorySwapLimitInBytes, held.MemorySwapLimitInBytes),
	}
}

func firstSet[T comparable](told, held T) T {
	var unset T
	if told == unset {
		return held
	}
	return told
}
