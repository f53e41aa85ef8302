{{- define "numalign.selector" -}}
app.kubernetes.io/name: numalign
app.kubernetes.io/component: webhook
{{- end }}

{{- define "numalign.labels" -}}
{{ include "numalign.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "numalign.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* "yes" where the cluster's policy may speak for pods that say nothing themselves. */}}
{{- define "numalign.defaults" -}}
{{- if .Values.policy.defaults }}yes{{ end -}}
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
      values: {{ append .root.Values.webhooks.excludedNamespaces .root.Release.Namespace | uniq | toJson }}
    - {key: numalign.io/admission, operator: NotIn, values: [disabled]}
    {{- range .lacks }}
    - {key: numalign.io/{{ . }}, operator: DoesNotExist}
    {{- end }}
    {{- with .has }}
    - {key: numalign.io/{{ . }}, operator: Exists}
    {{- end }}
{{- end }}

{{- /* Of pods; `annotated` asks for an annotation of ours too. */}}
{{- define "numalign.podConditions" -}}
matchConditions:
  - name: not-from-a-kubelet
    expression: "!('system:nodes' in request.userInfo.groups)"
  {{- if .annotated }}
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
kruise: {groups: [apps.kruise.io], versions: [v1alpha1], resources: [clonesets]}
kubeflow:
  groups: [kubeflow.org]
  versions: [v1, v2beta1]
  resources: [jaxjobs, mpijobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
leaderworkerset: {groups: [leaderworkerset.x-k8s.io], versions: [v1], resources: [leaderworkersets]}
ray: {groups: [ray.io], versions: [v1], resources: [rayclusters, rayjobs, rayservices]}
volcano: {groups: [batch.volcano.sh], versions: [v1alpha1], resources: [jobs]}
{{- end }}
