{{/* Names and labels. Selector labels are Spiderpool's: a release of Spiderpool is upgraded in place. */}}

{{- define "orbweaver.name" -}}
{{- default "spiderpool" .Values.global.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "orbweaver.agent" -}}
{{- .Values.spiderpoolAgent.name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "orbweaver.controller" -}}
{{- .Values.spiderpoolController.name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "orbweaver.cleanup" -}}
{{- printf "%s-cleanup" (include "orbweaver.controller" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Arguments: context, component. */}}
{{- define "orbweaver.selector" -}}
app.kubernetes.io/name: {{ include "orbweaver.name" .context }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Arguments: context, component, labels (optional). */}}
{{- define "orbweaver.labels" -}}
{{ include "orbweaver.selector" . }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
{{- with merge (dict) (.labels | default dict) .context.Values.global.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The key with its colon, or nothing. Arguments: context, annotations (optional). */}}
{{- define "orbweaver.annotations" -}}
{{- with merge (dict) (.annotations | default dict) .context.Values.global.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Arguments: context, image. */}}
{{- define "orbweaver.image" -}}
{{- $registry := default .image.registry .context.Values.global.imageRegistryOverride }}
{{- $path := .image.repository }}
{{- if $registry }}{{ $path = printf "%s/%s" (trimSuffix "/" $registry) $path }}{{ end }}
{{- if .image.digest }}
{{- printf "%s@%s" $path .image.digest }}
{{- else }}
{{- printf "%s:%s" $path (default .context.Chart.AppVersion .image.tag) }}
{{- end }}
{{- end }}

{{/* Days to what cert-manager wants. */}}
{{- define "orbweaver.hours" -}}
{{- mul . 24 }}h
{{- end }}

{{/* Arguments: context, path, port name, probe. */}}
{{- define "orbweaver.probe" -}}
httpGet:
  path: {{ .path }}
  port: admin
timeoutSeconds: 3
failureThreshold: {{ .probe.failureThreshold }}
periodSeconds: {{ .probe.periodSeconds }}
{{- end }}

{{/* Names under which API servers call the webhooks, separated by commas. Arguments: context, more. */}}
{{- define "orbweaver.hostnames" -}}
{{- $service := printf "%s.%s.svc" (include "orbweaver.controller" .context) .context.Release.Namespace }}
{{- concat (list $service (printf "%s.%s" $service .context.Values.global.clusterDnsDomain)) .more | uniq | join "," }}
{{- end }}
