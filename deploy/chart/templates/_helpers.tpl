{{- /* Of the webhook's pods, or with `component` of another program's. */}}
{{- define "numalign.selector" -}}
app.kubernetes.io/name: numalign
app.kubernetes.io/component: {{ .component | default "webhook" }}
{{- end }}

{{- define "numalign.labels" -}}
{{ include "numalign.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* That of the values, or `image` where a program has another. */}}
{{- define "numalign.image" -}}
{{- with .image | default .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Flags of settings: takes what they are by name. As JSON a number stays as it was written: in templates a large
       one becomes 1e+06. */}}
{{- define "numalign.settings" -}}
{{- range $name, $value := . }}
- {{ printf "--%s=%s" $name (kindIs "string" $value | ternary $value (toJson $value)) | quote }}
{{- end }}
{{- end }}

{{- /* Of every pod: what it is called, and what its owner wrote. */}}
{{- define "numalign.podMetadata" -}}
labels:
  {{- include "numalign.selector" . | nindent 2 }}
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component | default "webhook" }}
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Of every pod: who it is, before whom it goes, and that it is nobody. */}}
{{- define "numalign.identity" -}}
serviceAccountName: numalign-{{ .component | default "webhook" }}
automountServiceAccountToken: true
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Of our own programs. Takes how often readiness is asked. */}}
{{- define "numalign.probes" -}}
# It listens at once, but Python and its libraries take seconds on a busy node.
startupProbe:
  httpGet: {path: /healthz, port: metrics, scheme: HTTP}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 30
# Ready once it can answer; not ready while it drains.
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: HTTP}
  periodSeconds: {{ .readySeconds }}
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /healthz, port: metrics, scheme: HTTP}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- /* Of our own programs: where health and metrics are served. */}}
{{- define "numalign.metricsPort" -}}
- {name: metrics, containerPort: {{ .Values.metricsPort }}, protocol: TCP}
{{- end }}

{{- define "numalign.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Of every pod: which nodes may run it. */}}
{{- define "numalign.where" -}}
# Wishes, for a cluster of one node must work too.
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    # Of one version: while it is replaced, both are there.
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "numalign.selector" $ | nindent 8 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of a NetworkPolicy: who may watch our own programs. */}}
{{- define "numalign.watchers" -}}
# Health and metrics. A kubelet probes from the pod's own node, and is let in by every network plugin.
- ports:
    - {protocol: TCP, port: {{ .Values.metricsPort }}}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Of a Service: what a monitor reads by. */}}
{{- define "numalign.servedMetrics" -}}
- {name: metrics, port: {{ .Values.metricsPort }}, targetPort: metrics, protocol: TCP}
{{- end }}

{{- /* Of a NetworkPolicy: what every pod may ask. */}}
{{- define "numalign.egress" -}}
# Names, for where the API server has one in place of an address.
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
# The API server, wherever it is.
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{- /* Flags of programs that trace. */}}
{{- define "numalign.traced.flags" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- {{ printf "--otlp-endpoint=%s" .endpoint | quote }}
- --trace-ratio={{ toJson .ratio }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Of a NetworkPolicy: the receiver of traces. */}}
{{- define "numalign.traced.egress" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- ports:
    - {protocol: TCP, port: {{ regexFind "[0-9]+$" (urlParse .endpoint).host }}}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The account of a program. */}}
{{- define "numalign.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: numalign-{{ .component | default "webhook" }}
  namespace: {{ .namespace | default .Release.Namespace | quote }}
  labels:
    {{- include "numalign.labels" . | nindent 4 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# Only the pods that need a token get one; they ask for it.
automountServiceAccountToken: false
{{- end }}

{{- /* "yes" where the cluster's policy may speak for pods that say nothing themselves. */}}
{{- define "numalign.defaults" -}}
{{- range .Values.policy.defaults }}
{{- if or .default .enforce .warn .audit }}yes{{ end -}}
{{- end -}}
{{- end }}

{{- /* "yes" where the controller does anything about pods. */}}
{{- define "numalign.pods.looksAfter" -}}
{{- if or .Values.gates.enabled .Values.heal.enabled }}yes{{ end -}}
{{- end }}

{{- /* "yes" where the controller has to see pods: to do something about them, to show them or to tell of them. */}}
{{- define "numalign.pods.watches" -}}
{{- with .Values }}
{{- if or .gates.enabled .heal.enabled .map.enabled .policyReports.enabled .ownerEvents.enabled }}yes{{ end -}}
{{- end }}
{{- end }}

{{- /* "yes" where the map is reached by others than kubectl port-forward. */}}
{{- define "numalign.map.served" -}}
{{- with .Values.map }}{{ if and .enabled (or .service.enabled .ingress.enabled) }}yes{{ end }}{{ end -}}
{{- end }}

{{- /* The most that the cluster's policy lets the controller remove in a namespace that says nothing. */}}
{{- define "numalign.healed" -}}
{{- $most := "none" }}
{{- range .Values.policy.defaults }}
{{- if and .heal (ne $most "running") (ne .heal "none") }}
{{- $most = .heal }}
{{- end }}
{{- end }}
{{- $most -}}
{{- end }}

{{- /* What every webhook has. Takes the root, the path, and the seconds. */}}
{{- define "numalign.call" -}}
clientConfig:
  {{- /* With an own certificate, the program itself keeps caBundle. It stands in no manifest, so that neither an
         upgrade nor a rollback takes it away. */}}
  {{- if eq .root.Values.tls.source "secret" }}
  caBundle: {{ .root.Values.tls.caBundle | quote }}
  {{- end }}
  service: {namespace: {{ .root.Release.Namespace | quote }}, name: numalign-webhook, path: {{ .path }}, port: 443}
admissionReviewVersions: [v1]
sideEffects: None
timeoutSeconds: {{ .seconds }}
matchPolicy: Equivalent
{{- end }}

{{- define "numalign.pods" -}}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
{{- end }}

{{- /* Which namespaces: those that have the label `has`, if it is given, and none of the labels `lacks`. */}}
{{- define "numalign.namespaces" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ concat .root.Values.webhooks.excludedNamespaces (list .root.Release.Namespace .root.Values.agent.namespace) | uniq | toJson }}
    - {key: numalign.io/admission, operator: NotIn, values: [disabled]}
    {{- range .lacks }}
    - {key: numalign.io/{{ . }}, operator: DoesNotExist}
    {{- end }}
    {{- with .has }}
    - {key: numalign.io/{{ . }}, operator: Exists}
    {{- end }}
{{- end }}

{{- /* Of pods; `annotated` asks for an annotation of ours too, or, with `tolerating`, for a toleration of a taint that says
       what its nodes are for. */}}
{{- define "numalign.podConditions" -}}
matchConditions:
  - name: not-from-a-kubelet
    expression: "!('system:nodes' in request.userInfo.groups)"
  {{- if and .annotated .tolerating }}
  - name: annotated-or-tolerating
    expression: >-
      (has(object.metadata.annotations) && object.metadata.annotations.exists(key,
      key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')) ||
      (has(object.spec.tolerations) && object.spec.tolerations.exists(toleration, has(toleration.key) &&
      toleration.key in ['CPUAffinity', 'NUMACPUAffinity', 'NUMAMemoryPolicy']))
  {{- else if .annotated }}
  - name: annotated
    expression: >-
      has(object.metadata.annotations) && object.metadata.annotations.exists(key,
      key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')
  {{- end }}
  {{- with .root.Values.webhooks.matchConditions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "numalign.annotations" -}}
{{- if eq .Values.tls.source "cert-manager" }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/numalign-webhook
{{- end }}
{{- with .Values.webhooks.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* One rule. Takes groups, versions, resources. */}}
{{- define "numalign.rule" -}}
- apiGroups: {{ toJson .groups }}
  apiVersions: {{ toJson .versions }}
  operations: [CREATE, UPDATE]
  resources: {{ toJson .resources }}
  scope: Namespaced
{{- end }}

{{- /* Rules of the kinds that embed pod templates. A rule of a kind that is not installed does nothing. */}}
{{- define "numalign.workloads" -}}
{{ include "numalign.rule" (dict "groups" (list "apps") "versions" (list "v1") "resources" (list "deployments" "statefulsets" "daemonsets" "replicasets")) }}
{{ include "numalign.rule" (dict "groups" (list "batch") "versions" (list "v1") "resources" (list "jobs" "cronjobs")) }}
{{ include "numalign.rule" (dict "groups" (list "") "versions" (list "v1") "resources" (list "replicationcontrollers")) }}
{{- range $name, $rule := fromYaml (include "numalign.foreign" .) }}
{{- if index $.Values.workloadKinds $name }}
{{ include "numalign.rule" $rule }}
{{- end }}
{{- end }}
{{- range .Values.workloadRules }}
{{ include "numalign.rule" (dict "groups" .apiGroups "versions" .apiVersions "resources" .resources) }}
{{- end }}
{{- end }}

{{- define "numalign.foreign" -}}
argo: {groups: [argoproj.io], versions: [v1alpha1], resources: [rollouts]}
jobset: {groups: [jobset.x-k8s.io], versions: [v1alpha2], resources: [jobsets]}
knative: {groups: [serving.knative.dev], versions: [v1], resources: [configurations, services]}
kruise: {groups: [apps.kruise.io], versions: [v1alpha1], resources: [clonesets]}
kserve: {groups: [serving.kserve.io], versions: [v1beta1], resources: [inferenceservices]}
kubeflow:
  groups: [kubeflow.org]
  versions: [v1, v2beta1]
  resources: [jaxjobs, mpijobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
leaderworkerset: {groups: [leaderworkerset.x-k8s.io], versions: [v1], resources: [leaderworkersets]}
ray: {groups: [ray.io], versions: [v1], resources: [rayclusters, rayjobs, rayservices]}
volcano: {groups: [batch.volcano.sh], versions: [v1alpha1], resources: [jobs]}
{{- end }}

{{- /* The name of the scorer's port, and its scheme. */}}
{{- define "numalign.scorerPort" -}}
{{ .Values.scorer.tls.secretName | empty | ternary "http" "https" }}
{{- end }}

{{- /* The patches to take where a cluster's own is no version of Kubernetes: AKS counts those of its long-term support from 100
       on. Each is there; a later one fixes more. */}}
{{- define "numalign.patches" -}}
{"28": 15, "29": 15, "30": 14, "31": 14, "32": 13, "33": 13, "34": 4, "35": 4, "36": 3, "37": 2}
{{- end }}

{{- /* The tag of kube-scheduler's image for a cluster of this version: v1.34.2 for v1.34.2-eks-1a2b3c4. Clouds add what they
       please, and there are images of Kubernetes' own versions alone. */}}
{{- define "numalign.upstream" -}}
{{- $version := regexFind "^v?[0-9]+\\.[0-9]+\\.[0-9]+(-(alpha|beta|rc)\\.[0-9]+)?" . | trimPrefix "v" -}}
{{- if not $version -}}
{{- fail (printf "the cluster says that it is %q, which is no version of Kubernetes: set scheduler.image.tag" .) -}}
{{- end -}}
{{- $parts := splitList "." $version -}}
{{- $patches := include "numalign.patches" . | fromJson -}}
{{- if lt (int (index $parts 2)) 100 -}}
v{{ $version }}
{{- else if hasKey $patches (index $parts 1) -}}
v{{ index $parts 0 }}.{{ index $parts 1 }}.{{ index $patches (index $parts 1) }}
{{- else -}}
{{- fail (printf "no kube-scheduler is known for %s: set scheduler.image.tag to one of its minor version" .) -}}
{{- end -}}
{{- end }}

{{- /* The image of our own kube-scheduler. One may be a minor version older than the API server, and never newer
       (kubernetes.io/releases/version-skew-policy): it could ask for what is not there. */}}
{{- define "numalign.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{- $cluster := .Capabilities.KubeVersion.Version -}}
{{- $tag := $image.tag | default (include "numalign.upstream" $cluster) -}}
{{- /* A tag of your own says nothing of its version. */}}
{{- if regexMatch "^v?[0-9]+\\.[0-9]+(\\.|$)" $tag -}}
{{- $wanted := regexFind "[0-9]+\\.[0-9]+" $tag -}}
{{- $there := regexFind "[0-9]+\\.[0-9]+" $cluster -}}
{{- $older := sub (splitList "." $there | last | int) (splitList "." $wanted | last | int) -}}
{{- if or (lt $older 0) (gt $older 1) (ne (splitList "." $there | first) (splitList "." $wanted | first)) -}}
{{- fail (printf "scheduler.image.tag is %s and the cluster %s: a kube-scheduler must be of the cluster's minor version or the one before. Leave the tag empty to get it" $tag $cluster) -}}
{{- end -}}
{{- end -}}
{{ $image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{- /* What our own kube-scheduler is told. */}}
{{- define "numalign.schedulerConfiguration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace | quote }}
  resourceName: numalign-scheduler
profiles:
  - schedulerName: numalign-scheduler
{{- with .Values.scheduler.percentageOfNodesToScore }}
# By default a scheduler of many nodes looks at a part of them, and if the scorer takes none of that part, the pod
# waits although another node would do.
percentageOfNodesToScore: {{ . }}
{{- end }}
extenders:
  - urlPrefix: {{ include "numalign.scorerPort" . }}://numalign-scorer.{{ .Release.Namespace }}.svc
    {{- if .Values.scorer.tls.secretName }}
    enableHTTPS: true
    tlsConfig:
      # Without it, any certificate would be taken.
      caFile: /run/numalign/scorer/ca.crt
    {{- end }}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    {{- if eq .Values.scorer.reserveAt "bind" }}
    # Has the scorer write the Binding: it checks again, reserves and binds in one step.
    bindVerb: bind
    {{- end }}
    weight: {{ .Values.scheduler.weight }}
    # Names of nodes alone: the scorer knows the rest, and whole nodes are megabytes a pod.
    nodeCacheCapable: true
    # Of every call. To bind is a write to the API server.
    httpTimeout: 5s
    # A scheduler that ignored a refused bind would bind the pod itself, with no zones reserved for it. So
    # this one's pods wait while no scorer answers; nobody else's do.
    ignorable: false
{{- end }}

{{- /* Who API servers take an agent for. */}}
{{- define "numalign.agentUser" -}}
system:serviceaccount:{{ .Values.agent.namespace }}:numalign-agent
{{- end }}
