package main

import (
	"context"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plugin that needs no socket: it grants whatever the device manager chose.
type plugin struct {
	pluginapi.DevicePluginClient
	resource string
}

func (p *plugin) API() pluginapi.DevicePluginClient { return p }
func (p *plugin) Resource() string                  { return p.resource }
func (p *plugin) SocketPath() string                { return "" }

func (p *plugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty, ...grpc.CallOption,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *plugin) Allocate(
	context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption,
) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

// listed is the devices of one resource as a plugin reports them.
func listed(devices []device) *pluginapi.ListAndWatchResponse {
	response := &pluginapi.ListAndWatchResponse{}
	for _, device := range devices {
		response.Devices = append(response.Devices, device.reported())
	}
	return response
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
		found.Topology.Nodes = append(found.Topology.Nodes, &pluginapi.NUMANode{ID: int64(zone)})
	}
	return found
}
