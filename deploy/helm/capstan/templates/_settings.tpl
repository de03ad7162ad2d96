{{/* Secrets that the daemon reads: a list of name, secret and the folder that it is mounted at. */}}
{{- define "capstan.files" -}}
{{- $name := include "capstan.fullname" . -}}
{{- with .Values.tls.secret }}
- { name: tls, secret: {{ . }}, folder: /etc/capstan/tls }
{{- end }}
{{- with .Values.auth.clientCa.secret }}
- { name: client-ca, secret: {{ . }}, folder: /etc/capstan/client-ca }
{{- end }}
{{- if or .Values.auth.tokens.secret .Values.auth.tokens.content }}
- name: tokens
  secret: {{ default (printf "%s-tokens" $name) .Values.auth.tokens.secret }}
  folder: /etc/capstan/tokens
{{- end }}
{{- with .Values.auth.jwt.secret }}
- { name: jwks, secret: {{ . }}, folder: /etc/capstan/jwks }
{{- end }}
{{- if or .Values.tenants.secret .Values.tenants.content }}
- name: tenants
  secret: {{ default (printf "%s-tenants" $name) .Values.tenants.secret }}
  folder: /etc/capstan/tenants
{{- end }}
{{- end -}}

{{/* Settings as a map of name and value; those of the image are overridden. */}}
{{- define "capstan.settings" -}}
listen: {{ printf "%s:7654" .Values.bindAddress | quote }}
metrics_listen: {{ printf "%s:9464" .Values.bindAddress | quote }}
unix_socket: none
admin_socket: /run/capstan/admin.sock
data_dir: {{ .Values.persistence.enabled | ternary "/var/lib/capstan" "none" }}
drain_grace_s: {{ .Values.drain.graceSeconds }}
log_format: json
engine: {{ include "capstan.engine" . }}
{{- if .Values.gpu.enabled }}
cuda_devices_min: {{ .Values.gpu.min }}
{{- end }}
{{- if .Values.auth.insecure }}
insecure: true
{{- end }}
{{- if .Values.tls.secret }}
tls_certificate: /etc/capstan/tls/tls.crt
tls_key: /etc/capstan/tls/tls.key
metrics_tls: {{ .Values.tls.metrics }}
{{- end }}
{{- if .Values.auth.clientCa.secret }}
tls_client_ca: /etc/capstan/client-ca/ca.crt
{{- end }}
{{- if or .Values.auth.tokens.secret .Values.auth.tokens.content }}
auth_tokens: /etc/capstan/tokens/tokens.toml
{{- end }}
{{- with .Values.auth.jwt }}
{{- if .secret }}
auth_jwks: /etc/capstan/jwks/jwks.json
auth_jwt_issuer: {{ .issuer | quote }}
auth_jwt_audience: {{ .audience | quote }}
auth_jwt_tenant_claim: {{ .tenantClaim | quote }}
{{- end }}
{{- end }}
{{- if or .Values.tenants.secret .Values.tenants.content }}
tenants: /etc/capstan/tenants/tenants.toml
{{- end }}
{{- if .Values.envoy.enabled }}
{{- /* Callers share the few connections of the proxies: limits of a connection are those of the server. */}}
shared_connections: true
connections_per_address_max: {{ include "capstan.text" (default 1024 .Values.settings.connections_max) }}
connection_jobs_max: {{ include "capstan.text" (default 256 .Values.settings.jobs_max) }}
connection_uploads_max: {{ include "capstan.text" (default 256 .Values.settings.uploads_max) }}
{{- with .Values.settings.bytes_in_flight_max }}
connection_bytes_in_flight_max: {{ include "capstan.text" . | quote }}
{{- end }}
{{- with .Values.envoy.upstream.caller }}
auth_proxies: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "capstan.engine" -}}
{{- if not .Values.gpu.enabled }}cpu{{ else if .Values.gpu.min }}cuda{{ else }}auto{{ end -}}
{{- end -}}

{{- define "capstan.env" -}}
{{- $settings := include "capstan.settings" . | fromYaml -}}
{{- range $name, $value := mergeOverwrite $settings .Values.settings }}
- name: CAPSTAN_{{ upper $name }}
  value: {{ include "capstan.text" $value | quote }}
{{- end }}
{{- if not .Values.gpu.enabled }}
# The image asks for all GPUs. Without a GPU of the device plugin, it must not get any.
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
