{{/* What all webhooks have in common. Arguments: context, path, timeout (seconds), pledges (true: the
controller writes, unless it is a dry run). */}}
{{- define "orbweaver.hook" -}}
{{- $controller := .context.Values.spiderpoolController }}
admissionReviewVersions: [v1]
sideEffects: {{ ternary "NoneOnDryRun" "None" (default false .pledges) }}
timeoutSeconds: {{ default 10 .timeout }}
matchPolicy: Equivalent
clientConfig:
  service:
    name: {{ include "orbweaver.controller" .context }}
    namespace: {{ .context.Release.Namespace }}
    port: {{ $controller.webhookPort }}
    path: {{ .path }}
  {{- if eq $controller.tls.method "provided" }}
  caBundle: {{ $controller.tls.provided.tlsCa }}
  {{- end }}
{{- end }}
