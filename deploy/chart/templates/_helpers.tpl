{{- /* What each file passes as its root: the chart's own root, and as `component` the program that it is about. */}}

{{- /* The name of the installation, with which the names of its objects begin. One release per cluster: it is not made
       from the release's name. */}}
{{- define "numalign.name" -}}
{{ .Values.fullnameOverride | default .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- /* The name of an object. Takes the root and the rest of the name. */}}
{{- define "numalign.named" -}}
{{ include "numalign.name" (first .) }}-{{ last . }}
{{- end }}

{{- define "numalign.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- /* The namespace of a program. */}}
{{- define "numalign.home" -}}
{{ eq (.component | default "") "agent" | ternary .Values.agent.namespace (include "numalign.namespace" .) }}
{{- end }}

{{- /* The labels by which the pods of a program are selected; what belongs to no program has only the first. */}}
{{- define "numalign.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- /* A map over another, key by key; null removes a key. Takes both, and writes nothing where nothing is left. */}}
{{- define "numalign.overlaid" -}}
{{- $merged := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- if kindIs "invalid" $value }}
{{- $merged = omit $merged $key }}
{{- else }}
{{- $_ := set $merged $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with $merged }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* The metadata of an object of the cluster. Takes `root`, `name` (the rest of the name) or `fullName`, and further
       `labels` and `annotations`. */}}
{{- define "numalign.clusterMetadata" -}}
name: {{ .fullName | default (include "numalign.named" (list .root .name)) }}
{{ include "numalign.marks" . }}
{{- end }}

{{- /* The same of an object in the namespace of its program. */}}
{{- define "numalign.metadata" -}}
name: {{ .fullName | default (include "numalign.named" (list .root .name)) }}
namespace: {{ include "numalign.home" .root | quote }}
{{ include "numalign.marks" . }}
{{- end }}

{{- define "numalign.marks" -}}
labels:
  {{- include "numalign.selector" .root | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
  {{- with include "numalign.overlaid" (list .root.Values.commonLabels (.labels | default dict)) }}
  {{- . | nindent 2 }}
  {{- end }}
{{- with include "numalign.overlaid" (list .root.Values.commonAnnotations (.annotations | default dict)) }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The image of our own programs; the agent has one of its own. */}}
{{- define "numalign.image" -}}
{{- with eq .component "agent" | ternary .Values.agent.image .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Flags, from their values by name. As JSON a number stays as it was written: in templates a large one becomes 1e+06. */}}
{{- define "numalign.flags" -}}
{{- range $name, $value := . }}
- {{ printf "--%s=%s" $name (kindIs "string" $value | ternary $value (toJson $value)) | quote }}
{{- end }}
{{- end }}

{{- /* Flags by which all programs judge alike. */}}
{{- define "numalign.judging" -}}
- --policy-match={{ .Values.policyMatch }}
{{- with .Values.unknownNodes }}
- --unknown-nodes={{ . }}
{{- end }}
{{- end }}

{{- /* Flags of a program that its values add, and the variables of its environment. */}}
{{- define "numalign.extraArgs" -}}
{{- include "numalign.flags" (get .Values .component).extraArgs | trim }}
{{- end }}

{{- define "numalign.extraEnv" -}}
{{- with (get .Values .component).extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* The metadata of a program's pods. Takes the root, and further annotations. */}}
{{- define "numalign.podMetadata" -}}
{{- $own := get .root.Values .root.component -}}
labels:
  {{- include "numalign.selector" .root | nindent 2 }}
  {{- with include "numalign.overlaid" (list .root.Values.commonLabels .root.Values.podLabels $own.podLabels) }}
  {{- . | nindent 2 }}
  {{- end }}
annotations:
  {{- $ours := merge (dict "kubectl.kubernetes.io/default-container" .root.component) (.annotations | default dict) }}
  {{- include "numalign.overlaid" (list $ours .root.Values.commonAnnotations .root.Values.podAnnotations $own.podAnnotations) | nindent 2 }}
{{- end }}

{{- /* The values that a program shares with others. The agent runs on every node, and as root; `helm test` must not displace
       anything. */}}
{{- define "numalign.shared" -}}
{{- if eq .component "agent" }}
{{- dict "nodeSelector" (dict "kubernetes.io/os" "linux") | toYaml }}
{{- else if eq .component "test" }}
{{- pick .Values "nodeSelector" "tolerations" "affinity" "podSecurityContext" | toYaml }}
{{- else }}
{{- pick .Values "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "podSecurityContext" | toYaml }}
{{- end }}
{{- end }}

{{- /* The spec of a program's pods, but for containers and volumes: the account, the priority, the security context, and where they may run. */}}
{{- define "numalign.podSpec" -}}
{{- $own := get .Values .component }}
{{- $shared := include "numalign.shared" . | fromYaml -}}
serviceAccountName: {{ include "numalign.account" . }}
{{- with concat (.Values.global.imagePullSecrets | default list) .Values.imagePullSecrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName | default $shared.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with include "numalign.overlaid" (list $shared.podSecurityContext ($own.podSecurityContext | default dict)) }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "numalign.overlaid" (list $shared.nodeSelector ($own.nodeSelector | default dict)) }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with $own.tolerations | default $shared.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity | default $shared.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.topologySpreadConstraints | default $shared.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- /* While a version is replaced, its pods are spread among themselves. */}}
  {{- $ours := dict "matchLabelKeys" (list "pod-template-hash") "labelSelector" (dict "matchLabels" (include "numalign.selector" $ | fromYaml)) }}
  - {{ hasKey . "labelSelector" | ternary . (merge (dict) . $ours) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The security context of a program's container. */}}
{{- define "numalign.containerSecurity" -}}
{{- with include "numalign.overlaid" (list .Values.securityContext ((get .Values .component).securityContext | default dict)) -}}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Resource requests and limits of a program's container. */}}
{{- define "numalign.resources" -}}
{{- with (get .Values .component).resources -}}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The priority classes of Kubernetes' own that pods of the release's namespace have, as JSON. */}}
{{- define "numalign.criticalClasses" -}}
{{- $classes := list }}
{{- range $component := list "webhook" "controller" "scorer" "scheduler" }}
{{- $own := get $.Values $component }}
{{- $classes = append $classes ($own.priorityClassName | default $.Values.priorityClassName) }}
{{- end }}
{{- $critical := list }}
{{- range uniq $classes }}
{{- if hasPrefix "system-" . }}
{{- $critical = append $critical . }}
{{- end }}
{{- end }}
{{- toJson $critical }}
{{- end }}

{{- /* The probes of our own programs. Takes how often readiness is asked. */}}
{{- define "numalign.probes" -}}
# The port opens at once, but on a busy node Python takes seconds to load its libraries.
startupProbe:
  httpGet: {path: /healthz, port: metrics, scheme: HTTP}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 30
# Ready once it can answer, and not ready while it drains.
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

{{- /* The container port of our own programs' health and metrics. */}}
{{- define "numalign.metricsPort" -}}
- {name: metrics, containerPort: {{ .Values.metricsPort }}, protocol: TCP}
{{- end }}

{{- /* A NetworkPolicy rule that admits the clients of metrics. */}}
{{- define "numalign.watchers" -}}
# Health checks and metrics. The probes of the kubelet come from the node of the pod, which every network plugin allows.
- ports:
    - {protocol: TCP, port: {{ .Values.metricsPort }}}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The port of a Service from which a ServiceMonitor reads. */}}
{{- define "numalign.servedMetrics" -}}
- {name: metrics, port: {{ .Values.metricsPort }}, targetPort: metrics, protocol: TCP}
{{- end }}

{{- define "numalign.serviceMonitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "numalign.metadata" (dict "root" . "name" .component "labels" .Values.serviceMonitor.labels) | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- include "numalign.selector" . | nindent 6 }}
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ .Values.serviceMonitor.interval }}
{{- end }}

{{- define "numalign.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "numalign.metadata" (dict "root" . "name" .component) | nindent 2 }}
spec:
  minAvailable: 1
  # A broken replica must not block the drain of a node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "numalign.selector" . | nindent 6 }}
{{- end }}

{{- /* Rules of a NetworkPolicy: what every program may call. */}}
{{- define "numalign.egress" -}}
# DNS, in case the API server is configured by name.
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
# The API server, at any address.
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{- /* Flags of the programs that trace. */}}
{{- define "numalign.traced.flags" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- {{ printf "--otlp-endpoint=%s" .endpoint | quote }}
- --trace-ratio={{ toJson .ratio }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A rule of a NetworkPolicy: the receiver of traces. */}}
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

{{- /* The name of a program's ServiceAccount. */}}
{{- define "numalign.account" -}}
{{ dig "serviceAccount" "name" "" (get .Values .component) | default (include "numalign.named" (list . .component)) }}
{{- end }}

{{- /* The user that API servers take a program for. */}}
{{- define "numalign.user" -}}
system:serviceaccount:{{ include "numalign.home" . }}:{{ include "numalign.account" . }}
{{- end }}

{{- /* A program's ServiceAccount, unless its values name one that is there already. */}}
{{- define "numalign.serviceAccount" -}}
{{- $own := (get .Values .component).serviceAccount -}}
{{- if $own.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- $annotations := merge (dict) $own.annotations .Values.serviceAccount.annotations }}
  {{- include "numalign.metadata" (dict "root" . "fullName" (include "numalign.account" .) "annotations" $annotations) | nindent 2 }}
# Pods that need a token mount it explicitly.
automountServiceAccountToken: false
---
{{- end }}
{{- end }}

{{- /* Binds a role to the account of a program. Takes `root`, `kind` (Role or ClusterRole), and `name` or `fullName`. */}}
{{- define "numalign.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  {{- include (eq .kind "Role" | ternary "numalign.metadata" "numalign.clusterMetadata") . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .fullName | default (include "numalign.named" (list .root .name)) }}
subjects:
  - kind: ServiceAccount
    name: {{ include "numalign.account" .root }}
    namespace: {{ include "numalign.home" .root | quote }}
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

{{- /* "yes" where the controller has to see all pods: to do something about them, to show them or to tell of them. */}}
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
  {{- /* With an own certificate, the program itself writes caBundle. It is in no manifest, so that neither an
         upgrade nor a rollback removes it. */}}
  {{- if eq .root.Values.tls.source "secret" }}
  caBundle: {{ .root.Values.tls.caBundle | quote }}
  {{- end }}
  service: {namespace: {{ include "numalign.namespace" .root | quote }}, name: {{ include "numalign.named" (list .root "webhook") }}, path: {{ .path }}, port: 443}
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

{{- /* The rules for writes that can change the annotations of an existing pod. Those of a Binding are copied to its pod;
       bindings is the deprecated resource. */}}
{{- define "numalign.changes" -}}
- {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods, pods/*], scope: Namespaced}
- {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding, bindings], scope: Namespaced}
{{- end }}

{{- /* The annotations by which a pod meets the level of its namespace, in CEL. */}}
{{- define "numalign.decisive" -}}
['numalign.io/policy', 'volcano.sh/numa-topology-policy', 'numalign.io/resources']
{{- end }}

{{- /* Whether a user may bind the pods of all namespaces, as schedulers may, in CEL. */}}
{{- define "numalign.schedules" -}}
authorizer.group('').resource('pods').subresource('binding').check('create').allowed()
{{- end }}

{{- /* Which namespaces: those that have the label `has`, if it is given, and none of the labels `lacks`. */}}
{{- define "numalign.namespaces" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ concat .root.Values.webhooks.excludedNamespaces (list (include "numalign.namespace" .root) .root.Values.agent.namespace) | uniq | toJson }}
    - {key: numalign.io/admission, operator: NotIn, values: [disabled]}
    {{- range .lacks }}
    - {key: numalign.io/{{ . }}, operator: DoesNotExist}
    {{- end }}
    {{- with .has }}
    - {key: numalign.io/{{ . }}, operator: Exists}
    {{- end }}
{{- end }}

{{- /* Of pods; `annotated` also requires a numalign annotation or, with `tolerating`, a toleration of a taint that says
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
cert-manager.io/inject-ca-from: {{ include "numalign.namespace" . }}/{{ include "numalign.named" (list . "webhook") }}
{{- end }}
{{- with .Values.webhooks.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* One rule. Takes groups, versions, resources. Some templates belong to no namespace, as in a ClusterTrainingRuntime. */}}
{{- define "numalign.rule" -}}
- apiGroups: {{ toJson .groups }}
  apiVersions: {{ toJson .versions }}
  operations: [CREATE, UPDATE]
  resources: {{ toJson .resources }}
  scope: "*"
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
argo:
  groups: [argoproj.io]
  versions: [v1alpha1]
  resources: [cronworkflows, rollouts, workflows, workflowtemplates]
grove: {groups: [grove.io], versions: [v1alpha1], resources: [podcliques, podcliquesets]}
jobset: {groups: [jobset.x-k8s.io], versions: [v1alpha2], resources: [jobsets]}
knative: {groups: [serving.knative.dev], versions: [v1], resources: [configurations, services]}
kruise: {groups: [apps.kruise.io], versions: [v1alpha1], resources: [clonesets]}
kserve: {groups: [serving.kserve.io], versions: [v1beta1], resources: [inferenceservices]}
kubeflow:
  groups: [kubeflow.org]
  versions: [v1, v2beta1]
  resources: [jaxjobs, mpijobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
leaderworkerset: {groups: [leaderworkerset.x-k8s.io], versions: [v1], resources: [leaderworkersets]}
ray: {groups: [ray.io], versions: [v1], resources: [rayclusters, raycronjobs, rayjobs, rayservices]}
trainer: {groups: [trainer.kubeflow.org], versions: [v1alpha1], resources: [clustertrainingruntimes, trainingruntimes, trainjobs]}
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

{{- /* The configuration of our own kube-scheduler. */}}
{{- define "numalign.schedulerConfiguration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceNamespace: {{ include "numalign.namespace" . | quote }}
  resourceName: {{ include "numalign.named" (list . "scheduler") }}
profiles:
  - schedulerName: numalign-scheduler
{{- with .Values.scheduler.percentageOfNodesToScore }}
# By default, kube-scheduler looks only at some nodes of a large cluster. If the scorer rejects all of those, the pod
# stays pending although another node would fit.
percentageOfNodesToScore: {{ . }}
{{- end }}
extenders:
  - urlPrefix: {{ include "numalign.scorerPort" . }}://{{ include "numalign.named" (list . "scorer") }}.{{ include "numalign.namespace" . }}.svc
    {{- if .Values.scorer.tls.secretName }}
    enableHTTPS: true
    tlsConfig:
      # Without it, any certificate would be accepted.
      caFile: /run/numalign/scorer/ca.crt
    {{- end }}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    {{- if eq .Values.scorer.reserveAt "bind" }}
    # The scorer creates the Binding: it checks again, reserves and binds in one step.
    bindVerb: bind
    {{- end }}
    weight: {{ .Values.scheduler.weight }}
    # Send only the names of nodes. The scorer knows the rest, and complete nodes are megabytes per pod.
    nodeCacheCapable: true
    # For every call. The bind call includes a write to the API server.
    httpTimeout: 5s
    # If this were true, a scheduler whose bind call is rejected would bind the pod itself, without reserved zones. So
    # pods of this scheduler wait while no scorer answers; pods of other schedulers do not.
    ignorable: false
{{- end }}
