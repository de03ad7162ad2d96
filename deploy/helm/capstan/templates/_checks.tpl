{{/* Refuses values that contradict each other. values.schema.json checks them one by one. */}}
{{- define "capstan.checks" -}}
{{- $auth := .Values.auth -}}
{{- $tokens := or $auth.tokens.secret $auth.tokens.content -}}
{{- if not (or $tokens $auth.jwt.secret $auth.clientCa.secret $auth.insecure) -}}
{{- fail "nothing says who may call: set auth.tokens, auth.jwt or auth.clientCa, or set auth.insecure to serve everyone" -}}
{{- end -}}
{{- if and $auth.tokens.secret $auth.tokens.content -}}
{{- fail "auth.tokens: set secret or content, not both" -}}
{{- end -}}
{{- if and .Values.tenants.secret .Values.tenants.content -}}
{{- fail "tenants: set secret or content, not both" -}}
{{- end -}}
{{- if and $auth.jwt.secret (not (and $auth.jwt.issuer $auth.jwt.audience)) -}}
{{- fail "auth.jwt.secret requires auth.jwt.issuer and auth.jwt.audience" -}}
{{- end -}}
{{- if and (or $auth.clientCa.secret .Values.tls.metrics) (not .Values.tls.secret) -}}
{{- fail "auth.clientCa and tls.metrics require tls.secret" -}}
{{- end -}}
{{- if and (not .Values.tls.secret) (not .Values.tls.insecure) -}}
{{- fail "nothing encrypts calls: set tls.secret, or set tls.insecure to send tokens and scalars, which may be witnesses, in plain text" -}}
{{- end -}}
{{- if and .Values.envoy.tls.secret .Values.tls.insecure -}}
{{- fail "envoy.tls.secret requires tls.secret: with tls.insecure, Envoy serves plain text" -}}
{{- end -}}
{{- if and .Values.tls.secret .Values.tls.insecure -}}
{{- fail "tls: set secret or insecure, not both" -}}
{{- end -}}
{{- if .Values.gpu.enabled -}}
{{- if and (contains "/mig-" .Values.gpu.resource) (gt (int .Values.gpu.count) 1) -}}
{{- fail "gpu.count: a process sees one MIG slice only: set 1 and more replicas" -}}
{{- end -}}
{{- if gt (int .Values.gpu.min) (int .Values.gpu.count) -}}
{{- fail "gpu.min must be at most gpu.count" -}}
{{- end -}}
{{- end -}}
{{- include "capstan.checksOfAutoscaling" . -}}
{{- include "capstan.checksOfEnvoy" . -}}
{{- end -}}

{{- define "capstan.checksOfAutoscaling" -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail "autoscaling.minReplicas must be at most autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and (eq .kind "keda") (not .prometheusAddress) -}}
{{- fail "autoscaling.kind keda requires autoscaling.prometheusAddress" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "capstan.checksOfEnvoy" -}}
{{- with .Values.envoy -}}
{{- if and .enabled $.Values.tls.secret -}}
{{- if not (and .upstream.serverName .upstream.secret) -}}
{{- fail "envoy with tls.secret requires envoy.upstream.serverName and envoy.upstream.secret" -}}
{{- end -}}
{{- if and $.Values.auth.clientCa.secret (not .upstream.caller) -}}
{{- fail "envoy with auth.clientCa requires envoy.upstream.caller, the caller that its certificate names" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
