{{/* What a schema cannot say: values that do not fit together. Each message names the value and the remedy. */}}
{{- define "orbweaver.validate" -}}
{{- if not (or .Values.ipam.enableIPv4 .Values.ipam.enableIPv6) }}
{{- fail "ipam.enableIPv4 and ipam.enableIPv6 are both false: set at least one of the two to true" }}
{{- end }}
{{- range $key := list "spiderpoolAgent" "spiderpoolController" }}
{{- $repository := (index $.Values $key).image.repository }}
{{- if contains "spidernet-io/" $repository }}
{{- fail (printf "%s.image.repository %q is an image of Spiderpool: leave the value out, or name an image of Orbweaver" $key $repository) }}
{{- end }}
{{- end }}
{{- $provider := .Values.iaasNetworkProvider }}
{{- if or $provider.serverUrl $provider.service.name }}
{{- range $key := list "enableIPConflictDetection" "enableGatewayDetection" }}
{{- if index $.Values.ipam $key }}
{{- fail (printf "ipam.%s is true: it must be false beside a network provider, whose addresses answer only after the pod has its sub-ENI" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $provider.service.name (not $provider.service.namespace) (not $provider.serverUrl) }}
{{- fail "iaasNetworkProvider.service.namespace is empty: it is needed beside iaasNetworkProvider.service.name" }}
{{- end }}
{{- if and $provider.tls.clientCertificate (not $provider.tls.secretName) }}
{{- fail "iaasNetworkProvider.tls.clientCertificate is true: name the secret with tls.crt and tls.key in iaasNetworkProvider.tls.secretName" }}
{{- end }}
{{- include "orbweaver.validate.timeout" $provider.httpRequestTimeout }}
{{- include "orbweaver.validate.controller" . }}
{{- include "orbweaver.validate.pools" . }}
{{- end }}

{{- define "orbweaver.validate.controller" -}}
{{- $controller := .Values.spiderpoolController }}
{{- $tls := $controller.tls }}
{{- if and (eq $tls.method "certmanager") (not $tls.certmanager.issuerName) }}
{{- fail "spiderpoolController.tls.certmanager.issuerName is empty: tls.method certmanager needs an issuer of the release's namespace" }}
{{- end }}
{{- if eq $tls.method "provided" }}
{{- if not $tls.provided.tlsCa }}
{{- fail "spiderpoolController.tls.provided.tlsCa is empty: tls.method provided needs the certificate authority, in base64, for the API server to trust" }}
{{- end }}
{{- if ne (empty $tls.provided.tlsCert) (empty $tls.provided.tlsKey) }}
{{- fail "spiderpoolController.tls.provided has one of tlsCert and tlsKey: give both, or none and make the secret spiderpoolController.tls.secretName yourself" }}
{{- end }}
{{- end }}
{{- $budget := $controller.podDisruptionBudget }}
{{- if and $budget.enabled (gt (int $controller.replicas) 1) (ge (int $budget.minAvailable) (int $controller.replicas)) }}
{{- fail (printf "spiderpoolController.podDisruptionBudget.minAvailable %v with %v replicas would stop every drain: set it below the replicas" $budget.minAvailable $controller.replicas) }}
{{- end }}
{{- if eq (int $controller.webhookPort) (int $controller.prometheus.port) }}
{{- fail (printf "spiderpoolController.webhookPort and spiderpoolController.prometheus.port are both %v: they need two ports" $controller.webhookPort) }}
{{- end }}
{{- end }}

{{- define "orbweaver.validate.pools" -}}
{{- range $family := list "4" "6" }}
{{- $pool := $.Values.clusterDefaultPool }}
{{- if index $pool (printf "installIPv%sIPPool" $family) }}
{{- if not (index $.Values.ipam (printf "enableIPv%s" $family)) }}
{{- fail (printf "clusterDefaultPool.installIPv%sIPPool is true and ipam.enableIPv%s is false: set both or none" $family $family) }}
{{- end }}
{{- range $key := list "Subnet" "IPRanges" }}
{{- if not (index $pool (printf "ipv%s%s" $family $key)) }}
{{- fail (printf "clusterDefaultPool.ipv%s%s is empty: clusterDefaultPool.installIPv%sIPPool needs it" $family $key $family) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The agent does not start with such a timeout: say so before it is rolled out. */}}
{{- define "orbweaver.validate.timeout" -}}
{{- $milliseconds := 0.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 }}
{{- $factor := get (dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0) (regexReplaceAll "[0-9.]" . "") }}
{{- $milliseconds = addf $milliseconds (mulf (float64 (regexFind "[0-9.]+" .)) $factor) }}
{{- end }}
{{- if or (le $milliseconds 0.0) (ge $milliseconds 100000.0) }}
{{- fail (printf "iaasNetworkProvider.httpRequestTimeout %q is out of bounds: the plugin waits 100s for the agent, so write more than 0s and less than 100s" .) }}
{{- end }}
{{- end }}
