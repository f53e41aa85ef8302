package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// lookPeriod is how soon plugins notice another kubelet.
	lookPeriod = 100 * time.Millisecond
	// patience is how long one registration may take.
	patience = 5 * time.Second
)

type device struct {
	ID      string  `json:"id"`
	Zones   []int64 `json:"zones"`
	Healthy *bool   `json:"healthy"`
}

// reported says where the device is only if that is known: a topology without zones is something else.
func (d *device) reported() *pluginapi.Device {
	found := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
	if d.Healthy != nil && !*d.Healthy {
		found.Health = pluginapi.Unhealthy
	}
	if len(d.Zones) > 0 {
		found.Topology = &pluginapi.TopologyInfo{}
	}
	for _, zone := range d.Zones {
		found.Topology.Nodes = append(found.Topology.Nodes, &pluginapi.NUMANode{ID: zone})
	}
	return found
}

// shelf is the plugins of a node, by resource, and the kubelet with which they are registered.
type shelf struct {
	folder  string
	mutex   sync.Mutex
	plugins map[string]*plugin
	kubelet os.FileInfo
}

func newShelf(folder string) *shelf {
	return &shelf{folder: folder, plugins: map[string]*plugin{}}
}

// hold brings the plugins to this state, and says whether all are registered with the kubelet that is there. If
// not, they will be as soon as one is.
func (s *shelf) hold(devices map[string][]device) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for resource, running := range s.plugins {
		if _, wanted := devices[resource]; !wanted {
			running.stop()
			delete(s.plugins, resource)
		}
	}
	for resource, now := range devices {
		s.bring(resource, now)
	}
	s.look()
	return s.kubelet != nil
}

func (s *shelf) bring(resource string, devices []device) {
	if running, known := s.plugins[resource]; known {
		running.show(devices)
		return
	}
	s.plugins[resource] = newPlugin(s.folder, resource, devices)
	if s.kubelet == nil {
		return
	}
	if err := s.plugins[resource].start(); err != nil {
		log.Print(err)
		s.kubelet = nil
	}
}

// follow has every plugin register with each kubelet that comes: each makes its socket anew, after it removed
// those of all plugins. Never returns.
func (s *shelf) follow() {
	for range time.Tick(lookPeriod) {
		s.mutex.Lock()
		s.look()
		s.mutex.Unlock()
	}
}

func (s *shelf) look() {
	now, err := os.Stat(filepath.Join(s.folder, filepath.Base(pluginapi.KubeletSocket)))
	if err != nil {
		s.kubelet = nil
		return
	}
	if s.kubelet != nil && os.SameFile(s.kubelet, now) && s.kubelet.ModTime().Equal(now.ModTime()) {
		return
	}
	s.kubelet = nil
	if err := s.restart(); err != nil {
		log.Print(err)
		return
	}
	s.kubelet = now
}

func (s *shelf) restart() error {
	for _, plugin := range s.plugins {
		plugin.stop()
		if err := plugin.start(); err != nil {
			return err
		}
	}
	return nil
}

// plugin serves the devices of one resource; it grants whatever the device manager chose.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	folder   string
	resource string
	server   *grpc.Server
	mutex    sync.Mutex
	devices  []device
	changed  chan struct{}
}

func newPlugin(folder, resource string, devices []device) *plugin {
	return &plugin{folder: folder, resource: resource, devices: devices, changed: make(chan struct{})}
}

// endpoint is short whatever the resource is called: so must the path of a socket be.
func (p *plugin) endpoint() string {
	return fmt.Sprintf("%08x.sock", crc32.ChecksumIEEE([]byte(p.resource)))
}

func (p *plugin) start() error {
	socket := filepath.Join(p.folder, p.endpoint())
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(p.server, p)
	go p.server.Serve(listener)
	return p.register()
}

func (p *plugin) register() error {
	kubelet := filepath.Join(p.folder, filepath.Base(pluginapi.KubeletSocket))
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: p.endpoint(), ResourceName: p.resource,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.resource, err)
	}
	return nil
}

func (p *plugin) stop() {
	if p.server != nil {
		p.server.Stop()
		p.server = nil
	}
}

// show has the kubelet told of these devices.
func (p *plugin) show(devices []device) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

// shown is the devices as they are, and what is closed when they are others.
func (p *plugin) shown() (*pluginapi.ListAndWatchResponse, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	listed := &pluginapi.ListAndWatchResponse{}
	for _, one := range p.devices {
		listed.Devices = append(listed.Devices, one.reported())
	}
	return listed, p.changed
}

func (p *plugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	for {
		listed, changed := p.shown()
		if err := stream.Send(listed); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *plugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *plugin) Allocate(
	_ context.Context, request *pluginapi.AllocateRequest,
) (*pluginapi.AllocateResponse, error) {
	granted := &pluginapi.AllocateResponse{}
	for range request.ContainerRequests {
		granted.ContainerResponses = append(granted.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return granted, nil
}
