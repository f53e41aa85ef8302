//go:build v1_37 || v1_38

package main

import cadvisor "github.com/google/cadvisor/lib/model"

type (
	cacheInfo     = cadvisor.Cache
	coreInfo      = cadvisor.Core
	hugePagesInfo = cadvisor.HugePagesInfo
	machineInfo   = cadvisor.MachineInfo
	zoneInfo      = cadvisor.Node
)
