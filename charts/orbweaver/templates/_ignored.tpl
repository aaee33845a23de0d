{{/* Values of Spiderpool that have no counterpart here and would be missed, one a line. */}}
{{- define "orbweaver.ignored" -}}
{{- $values := .Values }}
{{- with $values.coordinator }}{{ if dig "enabled" true . }}
  coordinator: the plugin "coordinator" is not part of Orbweaver
{{- end }}{{ end }}
{{- if dig "multusCNI" "install" false $values.multus }}
  multus.multusCNI.install: install Multus by itself
{{- end }}
{{- if dig "enableMultusConfig" false $values.multus }}
  multus.enableMultusConfig: no network definitions are made from SpiderMultusConfigs
{{- end }}
{{- range $key := list "plugins" "rdma" "sriov" }}
{{- if index $values $key }}
  {{ $key }}: install these plugins by themselves
{{- end }}
{{- end }}
{{- if dig "networkResourcePlugin" "enabled" false $values.spiderpoolAgent }}
  spiderpoolAgent.networkResourcePlugin: there is no device plugin yet
{{- end }}
{{- if dig "tuneSysctlConfig" false $values.spiderpoolAgent }}
  spiderpoolAgent.tuneSysctlConfig: kernel settings of nodes are left alone
{{- end }}
{{- end }}
