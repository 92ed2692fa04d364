{{/* Name of all objects: one agent a node, so one release a cluster. */}}
{{- define "whylat.name" -}}
whylat-agent
{{- end }}

{{- define "whylat.selector" -}}
app.kubernetes.io/name: {{ include "whylat.name" . }}
{{- end }}

{{- define "whylat.labels" -}}
{{ include "whylat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Folders of the runtime with the files that name pods: JSON of a list. */}}
{{- define "whylat.folders" -}}
{{- $folders := dict
  "containerd" (list "/run/containerd/io.containerd.runtime.v2.task")
  "k3s" (list "/run/k3s/containerd/io.containerd.runtime.v2.task")
  "microk8s" (list "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task")
  "cri-o" (list "/run/containers/storage" "/var/lib/containers/storage/overlay-containers")
  "docker" (list "/var/lib/docker/containers")
  "none" (list) }}
{{- get $folders .Values.runtime | toJson }}
{{- end }}

{{/* Folder with the socket of the runtime, which has the labels of pods; empty: none is needed. A runtime that starts again
     makes another socket, which a mount of the socket alone would not have. */}}
{{- define "whylat.socketFolder" -}}
{{- $folders := dict
  "containerd" "/run/containerd"
  "k3s" "/run/k3s/containerd"
  "microk8s" "/var/snap/microk8s/common/run" }}
{{- if .Values.runtimeSocket }}{{ get $folders .Values.runtime }}{{ end }}
{{- end }}

{{/* The agent's configuration. */}}
{{- define "whylat.config" -}}
{{- if not (or .Values.ship.target .Values.otlp.endpoint) }}
{{- fail "ship.target or otlp.endpoint must be given: nothing else gets what the agent finds" }}
{{- end -}}
[watch]
detail = {{ toRawJson .Values.watch.detail }}
poll_ms = {{ int .Values.watch.pollMs }}
cpu_low = {{ printf "%f" (float64 .Values.watch.cpuLow) }}
cpu_high = {{ printf "%f" (float64 .Values.watch.cpuHigh) }}
interval_s = {{ int .Values.watch.intervalS }}
{{- if .Values.ship.target }}

[ship]
target = {{ toRawJson .Values.ship.target }}
spool = "/var/lib/whylat-agent/spool"
spool_max_bytes = {{ int64 .Values.ship.spoolMaxBytes }}
{{- end }}
{{- if .Values.metrics.listen }}

[metrics]
listen = {{ toRawJson .Values.metrics.listen }}
names = {{ toRawJson .Values.metrics.names }}
{{- end }}
{{- if .Values.health.port }}

[health]
listen = "127.0.0.1:{{ int .Values.health.port }}"
{{- end }}
{{- if .Values.otlp.endpoint }}

[otlp]
endpoint = {{ toRawJson .Values.otlp.endpoint }}
protocol = {{ toRawJson .Values.otlp.protocol }}
{{- end }}
{{- range .Values.applications }}

[[application]]
name = {{ toRawJson .name }}
{{- range $key, $value := omit . "name" }}
{{- if kindIs "slice" $value }}
{{ $key }} = [{{ range $place, $port := $value }}{{ if $place }}, {{ end }}{{ int $port }}{{ end }}]
{{- else }}
{{ $key }} = {{ toRawJson $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
