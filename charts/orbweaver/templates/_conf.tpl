{{/* conf.yml, which agent and controller read. */}}
{{- define "orbweaver.conf" -}}
ipamUnixSocketPath: {{ .Values.global.ipamUNIXSocketHostPath | quote }}
{{- with .Values.ipam }}
enableIPv4: {{ .enableIPv4 }}
enableIPv6: {{ .enableIPv6 }}
enableStatefulSet: {{ .enableStatefulSet }}
enableKubevirtStaticIP: {{ .enableKubevirtStaticIP }}
enableSpiderSubnet: {{ .spiderSubnet.enable }}
enableAutoPoolForApplication: {{ .spiderSubnet.autoPool.enable }}
clusterSubnetAutoPoolDefaultRedundantIPNumber: {{ .spiderSubnet.autoPool.defaultRedundantIPNumber }}
enableCleanOutdatedEndpoint: {{ .enableCleanOutdatedEndpoint }}
enableIPConflictDetection: {{ .enableIPConflictDetection }}
enableGatewayDetection: {{ .enableGatewayDetection }}
{{- end }}
enableValidatingResourcesDeletedWebhook: {{ .Values.spiderpoolController.enableValidatingResourcesDeletedWebhook }}
podResourceInject:
  enabled: {{ .Values.spiderpoolController.podResourceInject.enabled }}
  namespacesExclude: {{ .Values.spiderpoolController.podResourceInject.namespacesExclude | toJson }}
  namespacesInclude: {{ .Values.spiderpoolController.podResourceInject.namespacesInclude | toJson }}
{{- with .Values.iaasNetworkProvider }}
iaasNetworkProvider:
  serverUrl: {{ .serverUrl | quote }}
  {{- if .service.name }}
  service:
    name: {{ .service.name | quote }}
    namespace: {{ .service.namespace | quote }}
    port: {{ .service.port }}
  {{- end }}
  httpRequestTimeout: {{ .httpRequestTimeout | quote }}
  tls:
    {{- if .tls.caFile }}
    caFile: {{ .tls.caFile | quote }}
    {{- else if .tls.secretName }}
    caFile: /etc/orbweaver/provider/ca.crt
    {{- end }}
    {{- if .tls.clientCertificate }}
    certFile: /etc/orbweaver/provider/tls.crt
    keyFile: /etc/orbweaver/provider/tls.key
    {{- end }}
    insecureSkipVerify: {{ .tls.insecureSkipVerify }}
{{- end }}
{{- end }}
