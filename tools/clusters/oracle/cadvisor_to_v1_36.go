//go:build v1_32 || v1_34 || v1_36

package main

import cadvisor "github.com/google/cadvisor/info/v1"

type (
	cacheInfo     = cadvisor.Cache
	coreInfo      = cadvisor.Core
	hugePagesInfo = cadvisor.HugePagesInfo
	machineInfo   = cadvisor.MachineInfo
	zoneInfo      = cadvisor.Node
)
