{{/* The configuration of Envoy. Replicas have fixed names, and the ring is made of names, so that a
     replica that restarts with another address keeps its keys. */}}
{{- define "capstan.envoyConfig" -}}
node: { id: envoy, cluster: {{ include "capstan.fullname" . }} }
admin:
  address: { socket_address: { address: 127.0.0.1, port_value: 9901 } }
static_resources:
  listeners:
    - name: grpc
      address: { socket_address: { address: {{ include "capstan.envoyAddress" . }}, port_value: 7654 } }
      per_connection_buffer_limit_bytes: 8388608
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: grpc
                codec_type: HTTP2
                http2_protocol_options: {{- include "capstan.envoyHttp2" . | nindent 18 }}
                # A call is silent while its job computes.
                stream_idle_timeout: {{ .Values.envoy.streamIdleSeconds }}s
                # A caller that does not read must not keep what the replica has sent whole.
                stream_flush_timeout: 20s
                drain_timeout: {{ .Values.envoy.drainSeconds }}s
                # Callers or the daemon choose the ids of calls.
                generate_request_id: false
                preserve_external_request_id: true
                {{- if .Values.auth.clientCa.secret }}
                forward_client_cert_details: SANITIZE
                {{- end }}
                route_config:
                  name: replicas
                  # Only Envoy names callers.
                  request_headers_to_remove: [x-capstan-caller, x-capstan-tenant]
                  {{- if .Values.auth.clientCa.secret }}
                  request_headers_to_add:
                    - header: { key: x-capstan-caller, value: "%DOWNSTREAM_PEER_URI_SAN%" }
                      append_action: OVERWRITE_IF_EXISTS_OR_ADD
                  {{- end }}
                  virtual_hosts:
                    - name: replicas
                      domains: ["*"]
                      routes:
                        # Health checks of callers would take the memory of Envoy's.
                        - match: { prefix: "/grpc.health.v1." }
                          direct_response: { status: 404 }
                        - match: { prefix: "/" }
                          route:
                            cluster: replicas
                            # Callers set deadlines.
                            timeout: 0s
                            hash_policy:
                              - header: { header_name: capstan-affinity }
                                terminal: true
                              # Calls without the header stay at one replica, too.
                              - connection_properties: { source_ip: true }
                            # The replica has not seen the call, so another one may take it.
                            retry_policy:
                              retry_on: connect-failure,refused-stream
                              num_retries: 2
                              host_selection_retry_max_attempts: 8
                              retry_host_predicate:
                                - name: envoy.retry_host_predicates.previous_hosts
                                  typed_config:
                                    "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          {{- if .Values.tls.secret }}
          transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              {{- if .Values.auth.clientCa.secret }}
              require_client_certificate: {{ not (include "capstan.takesTokens" .) }}
              {{- end }}
              common_tls_context:
                alpn_protocols: [h2]
                tls_certificate_sds_secret_configs:
                  - name: certificate
                    sds_config: { resource_api_version: V3, path_config_source: { path: /etc/envoy/certificate.yaml } }
                {{- if .Values.auth.clientCa.secret }}
                validation_context:
                  trusted_ca: { filename: /etc/envoy-client-ca/ca.crt }
                  # The caller's name, as capstand reads it.
                  match_typed_subject_alt_names:
                    - san_type: URI
                      matcher: { prefix: "spiffe://" }
                {{- end }}
          {{- end }}
    {{- include "capstan.envoyStatus" . | nindent 4 }}
  clusters:
    - name: admin
      type: STATIC
      load_assignment:
        cluster_name: admin
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9901 } } }
    {{- include "capstan.envoyReplicas" . | nindent 4 }}
{{- end -}}

{{- define "capstan.envoyAddress" -}}
{{ .Values.bindAddress | trimPrefix "[" | trimSuffix "]" | quote }}
{{- end -}}

{{/* The window of a connection is that of all its streams: those that are not read must not delay
     others. */}}
{{- define "capstan.envoyHttp2" -}}
{{- $streams := min 1024 (default 64 .Values.settings.streams_per_connection_max) -}}
max_concurrent_streams: {{ $streams }}
initial_stream_window_size: 1048576
initial_connection_window_size: {{ mul $streams 1048576 }}
{{- end -}}

{{/* Not empty if calls may present tokens. */}}
{{- define "capstan.takesTokens" -}}
{{- or .Values.auth.tokens.secret .Values.auth.tokens.content .Values.auth.jwt.secret -}}
{{- end -}}

{{/* Readiness and metrics of Envoy, without the rest of its administration. */}}
{{- define "capstan.envoyStatus" -}}
- name: status
  address: { socket_address: { address: {{ include "capstan.envoyAddress" . }}, port_value: 9902 } }
  filter_chains:
    - filters:
        - name: envoy.filters.network.http_connection_manager
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
            stat_prefix: status
            route_config:
              virtual_hosts:
                - name: status
                  domains: ["*"]
                  routes:
                    - { match: { path: /ready }, route: { cluster: admin } }
                    - { match: { path: /stats/prometheus }, route: { cluster: admin } }
            http_filters:
              - name: envoy.filters.http.router
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{{- end -}}

{{- define "capstan.envoyReplicas" -}}
{{- $name := include "capstan.fullname" . -}}
{{- $most := .Values.autoscaling.enabled | ternary .Values.autoscaling.maxReplicas .Values.replicas | int -}}
- name: replicas
  type: STRICT_DNS
  connect_timeout: 5s
  lb_policy: RING_HASH
  per_connection_buffer_limit_bytes: 8388608
  common_lb_config:
    # Replicas that load or drain get no calls, even if all of them do.
    healthy_panic_threshold: { value: 0 }
    consistent_hashing_lb_config: { use_hostname_for_hashing: true }
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config:
        http2_protocol_options: {{- include "capstan.envoyHttp2" . | nindent 10 }}
  health_checks:
    - timeout: 2s
      interval: 3s
      # The default of a minute holds until the first call.
      no_traffic_interval: 3s
      unhealthy_threshold: 2
      healthy_threshold: 1
      grpc_health_check: {}
  circuit_breakers:
    thresholds:
      - { max_connections: 4096, max_requests: 16384, max_pending_requests: 16384 }
  load_assignment:
    cluster_name: replicas
    endpoints:
      - lb_endpoints:
          {{- range until $most }}
          - endpoint:
              address:
                socket_address:
                  address: {{ $name }}-{{ . }}.{{ include "capstan.headless" $ }}.{{ $.Release.Namespace }}.svc
                  port_value: 7654
          {{- end }}
  {{- if .Values.tls.secret }}
  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
      sni: {{ .Values.envoy.upstream.serverName }}
      common_tls_context:
        alpn_protocols: [h2]
        {{- if .Values.auth.clientCa.secret }}
        tls_certificate_sds_secret_configs:
          - name: identity
            sds_config: { resource_api_version: V3, path_config_source: { path: /etc/envoy/identity.yaml } }
        {{- end }}
        validation_context:
          trusted_ca: { filename: /etc/envoy-upstream/ca.crt }
          match_typed_subject_alt_names:
            - san_type: DNS
              matcher: { exact: {{ .Values.envoy.upstream.serverName }} }
  {{- end }}
{{- end -}}

{{/* A certificate that Envoy reads again when Kubernetes replaces its Secret: (list NAME FOLDER). */}}
{{- define "capstan.envoyCertificate" -}}
resources:
  - "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
    name: {{ index . 0 }}
    tls_certificate:
      certificate_chain: { filename: {{ index . 1 }}/tls.crt }
      private_key: { filename: {{ index . 1 }}/tls.key }
      watched_directory: { path: {{ index . 1 }} }
{{- end -}}
