{{/* Resources of a replica, with its GPUs, which have equal requests and limits. */}}
{{- define "capstan.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- if .Values.gpu.enabled -}}
{{- $_ := set $resources.limits .Values.gpu.resource (.Values.gpu.count | int) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* Where pods run: (dict "from" VALUES "tolerations" LIST). */}}
{{- define "capstan.scheduling" -}}
{{- with .from.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .from.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .from.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
