{{- /* The values that have another name now, old to new, the most exact first; "" for those that are gone. */}}
{{- define "numalign.renamed" -}}
image.pullSecrets: imagePullSecrets
replicas: webhook.replicas
resources: webhook.resources
port: webhook.port
hostNetwork: webhook.hostNetwork
service: webhook.service
settings: webhook.extraArgs
settings.policy-match: policyMatch
settings.unknown-nodes: unknownNodes
settings.tls-names: tls.extraNames
settings.tls-days: tls.days
controller.settings: controller.extraArgs
scorer.settings: scorer.extraArgs
scorer.settings.promise-seconds: scorer.extraArgs.reservation-seconds
scorer.promise: scorer.reserveAt
agent.settings: agent.extraArgs
agent.seLinuxOptions: agent.podSecurityContext.seLinuxOptions
serviceMonitor.tlsConfig: ""
{{- end }}

{{- /* The flags that the chart sets itself, by program, and the value that each is set by; "" for those that are set by no value. */}}
{{- define "numalign.managed" -}}
webhook:
  port: webhook.port
  metrics-port: metricsPort
  drain-seconds: drainSeconds
  tls-secret: tls.secretName
  tls-cert: tls.source
  tls-key: tls.source
  tls-names: tls.extraNames
  service: fullnameOverride
  client-ca: tls.clientCA
  otlp-endpoint: tracing.endpoint
  trace-ratio: tracing.ratio
  count-pods: countPods
  named-namespaces: namedNamespaces
  kubelet-configs: kubeletConfigs.enabled
  remember-shapes: rememberShapes
  workloads: workloads
  policy: policy
  policy-match: policyMatch
  unknown-nodes: unknownNodes
  gates: gates.enabled
  insecure-http: ""
controller:
  metrics-port: metricsPort
  drain-seconds: drainSeconds
  tls-secret: tls.secretName
  tls-names: tls.extraNames
  tls-days: tls.days
  service: fullnameOverride
  webhook-configuration: ""
  otlp-endpoint: tracing.endpoint
  trace-ratio: tracing.ratio
  label-nodes: labelNodes
  named-namespaces: namedNamespaces
  kubelet-configs: kubeletConfigs.enabled
  remember-shapes: rememberShapes
  policy: policy
  policy-match: policyMatch
  unknown-nodes: unknownNodes
  gates: gates.enabled
  gate-patience-seconds: gates.patienceSeconds
  pin-patience-seconds: gates.pinPatienceSeconds
  heal: heal.enabled
  keep-refused: heal.keepRefused
  heal-per-minute: heal.perMinute
  heal-owner-seconds: heal.ownerSeconds
  heal-node-seconds: heal.nodeSeconds
  policy-reports: policyReports.enabled
  owner-events: ownerEvents.enabled
  map: map.enabled
  map-port: map.port
  map-bind: map.service.enabled
  map-tls-cert: map.tls.secretName
  map-tls-key: map.tls.secretName
  map-plain-http: map.plainHttp
  map-audience: map.audience
  dry-run: ""
scorer:
  port: ""
  metrics-port: metricsPort
  drain-seconds: drainSeconds
  tls-cert: scorer.tls.secretName
  tls-key: scorer.tls.secretName
  client-ca: scorer.tls.clientCA
  insecure-http: scorer.tls.secretName
  otlp-endpoint: tracing.endpoint
  trace-ratio: tracing.ratio
  reserve-at: scorer.reserveAt
  kubelet-configs: kubeletConfigs.enabled
  remember-shapes: rememberShapes
  policy: policy
  policy-match: policyMatch
  unknown-nodes: unknownNodes
  ranking: scorer.ranking
scheduler:
  config: scheduler
  secure-port: ""
  authentication-skip-lookup: ""
  pod-max-in-unschedulable-pods-duration: ""
agent:
  metrics-port: metricsPort
  node-name: ""
  node-address: ""
  kubelet-port: agent.kubeletPort
  podresources-socket: agent.kubeletFolder
  kubelet-state: agent.checkpoints
  kubelet-config: agent.kubeletConfig
  publish: agent.publish
  annotate-pods: agent.annotatePods
  sysfs: ""
  kubelet-ca: ""
  once: ""
  output: ""
{{- end }}

{{- /* "yes" where a value is not null, nor a map in which all values are. */}}
{{- define "numalign.some" -}}
{{- if and (kindIs "map" .) . -}}
{{- range . }}{{ include "numalign.some" . }}{{ end -}}
{{- else if not (kindIs "invalid" .) -}}
yes
{{- end -}}
{{- end }}

{{- /* "yes" where a map has a value at a path with dots between its steps. Takes both. With null, users remove a value that the
       release has. */}}
{{- define "numalign.given" -}}
{{- $map := first . }}
{{- $steps := splitList "." (last .) }}
{{- if and (kindIs "map" $map) (hasKey $map (first $steps)) -}}
{{- if eq (len $steps) 1 -}}
{{ include "numalign.some" (get $map (first $steps)) }}
{{- else -}}
{{ include "numalign.given" (list (get $map (first $steps)) (join "." (rest $steps))) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails with all that is wrong, where the schema cannot say what to do instead. */}}
{{- define "numalign.checks" -}}
{{- $wrong := list }}
{{- range $old, $new := include "numalign.renamed" . | fromYaml }}
{{- if include "numalign.given" (list $.Values $old) }}
{{- $wrong = append $wrong ($new | empty | ternary (printf "%s is gone: delete it" $old) (printf "%s is now called %s" $old $new)) }}
{{- end }}
{{- end }}
{{- with $wrong }}
{{- fail (printf "values of an earlier chart:\n  %s\nIf you set them, rename them (docs/how-to/upgrade.md). If you did not, run helm upgrade with --reset-then-reuse-values in place of --reuse-values." (join "\n  " .)) }}
{{- end }}
{{- range $program, $flags := include "numalign.managed" . | fromYaml }}
{{- range $flag, $value := $flags }}
{{- if hasKey (get $.Values $program).extraArgs $flag }}
{{- $hint := $value | empty | ternary "it cannot be changed" (printf "set %s in place of it" $value) }}
{{- $wrong = append $wrong (printf "%s.extraArgs.%s: the chart sets --%s itself; %s" $program $flag $flag $hint) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $wrong }}
{{- fail (printf "flags that are not yours to set:\n  %s" (join "\n  " .)) }}
{{- end }}
{{- end }}
