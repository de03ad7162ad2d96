{{- define "capstan.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "capstan.headless" -}}
{{ include "capstan.fullname" . }}-replicas
{{- end -}}

{{/* Labels that select the pods of (dict "root" $ "component" NAME). */}}
{{- define "capstan.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "capstan.labels" -}}
{{ include "capstan.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "capstan.image" -}}
{{- $image := .Values.image -}}
{{- include "capstan.imageOf" (dict "image" $image "tag" (default .Chart.AppVersion $image.tag)) -}}
{{- end -}}

{{/* An image by its digest, if there is one, else by its tag. */}}
{{- define "capstan.imageOf" -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}

{{/* A number or text as the text of a setting: large numbers of YAML are floats. */}}
{{- define "capstan.text" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}
