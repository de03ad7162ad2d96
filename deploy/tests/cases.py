"""The values that the chart is rendered with."""

PLAIN = {"tls": {"insecure": True}}
TOKENS = {"auth": {"tokens": {"secret": "tokens"}}, **PLAIN}
TLS = {"tls": {"secret": "server"}}
MTLS = {"auth": {"clientCa": {"secret": "authorities"}}, **TLS}
INSECURE = {"auth": {"insecure": True}, **PLAIN}
TENANTS = """
[tenants.default]
jobs_max = 8

[tenants.provers]
callers = ["cert:spiffe://example.org/prover"]
weight = 4
bytes_in_flight_max = "1 GiB"
device_seconds_per_minute = 30.0
"""
UPSTREAM = {"serverName": "replica.example.org", "secret": "envoy"}
KEDA = {"enabled": True, "prometheusAddress": "http://prometheus:9090", "maxReplicas": 6}
MONITORING = {name: {"enabled": True} for name in ("serviceMonitor", "rules", "dashboards")}
# Every number of a setting must be written without an exponent.
LARGE = {"connections_max": 1000000, "objects_max": 262144, "bytes_in_flight_max": "512 MiB"}

CASES = {
    "insecure": INSECURE,
    "tokens": TOKENS | {"tests": {"tokenSecret": "token"}},
    "tokens-in-values": PLAIN | {"auth": {"tokens": {"content": "TOKENS"}}},
    "tokens-over-tls": TOKENS | TLS | {"tests": {"tokenSecret": "token", "tlsSecret": "ca"}},
    "jwt": PLAIN
    | {"auth": {"jwt": {"secret": "keys", "issuer": "https://example.org", "audience": "x"}}},
    "mtls": {**MTLS, "tls": {"secret": "server", "metrics": True}, "tests": {"tlsSecret": "ada"}},
    "tenants": TOKENS | {"tenants": {"secret": "tenants"}},
    "tenants-in-values": MTLS | {"tenants": {"content": TENANTS}},
    "gpu": TOKENS | {"gpu": {"enabled": True}},
    "two-gpus": TOKENS | {"gpu": {"enabled": True, "count": 2, "min": 2, "runtimeClassName": "nv"}},
    "gpu-if-it-works": TOKENS | {"gpu": {"enabled": True, "min": 0}},
    "mig": TOKENS | {"gpu": {"enabled": True, "resource": "nvidia.com/mig-3g.40gb"}, "replicas": 7},
    "envoy": TOKENS | {"envoy": {"enabled": True}, "replicas": 2},
    "envoy-insecure": INSECURE | {"envoy": {"enabled": True}, "replicas": 2},
    "envoy-tls": TOKENS | TLS | {"envoy": {"enabled": True, "upstream": UPSTREAM}},
    "envoy-mtls": MTLS
    | {
        "envoy": {"enabled": True, "upstream": UPSTREAM | {"caller": "cert:envoy.example.org"}},
        "replicas": 2,
        "settings": LARGE,
    },
    "envoy-ipv6": TOKENS | {"envoy": {"enabled": True}, "bindAddress": "[::]"},
    "keda": TOKENS | {"autoscaling": KEDA},
    "hpa": TOKENS | {"autoscaling": {"enabled": True, "kind": "hpa"}},
    "envoy-keda": TOKENS | {"autoscaling": KEDA, "envoy": {"enabled": True}},
    "monitoring": TOKENS | {"monitoring": MONITORING},
    "monitoring-over-tls": TOKENS
    | {"monitoring": MONITORING, "tls": {"secret": "server", "metrics": True}},
    "settings": INSECURE
    | {
        "settings": LARGE
        | {
            "reflection": False,
            "log_level": "info,capstan=debug",
            "unix_socket": "/run/capstan/capstan.sock",
            "program_time_max_s": 60,
        }
    },
    "everything-off": INSECURE
    | {
        "persistence": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "drain": {"preStopSeconds": 0, "graceSeconds": 0},
        "replicas": 0,
    },
    "everything-on": MTLS
    | {
        "auth": {
            "tokens": {"secret": "tokens"},
            "clientCa": {"secret": "authorities"},
            "jwt": {"secret": "keys", "issuer": "https://example.org", "audience": "x"},
        },
        "tls": {"secret": "server", "metrics": True},
        "tenants": {"secret": "tenants"},
        "gpu": {"enabled": True, "count": 8, "min": 7},
        "monitoring": MONITORING
        | {"serviceMonitor": {"enabled": True, "serverName": "a.example.org", "caSecret": "ca"}},
        "autoscaling": KEDA,
        "envoy": {"enabled": True, "upstream": UPSTREAM | {"caller": "cert:envoy.example.org"}},
        "tests": {"tokenSecret": "token", "tlsSecret": "ada"},
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"gpu": "h200"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "high",
        "extraEnv": [{"name": "OTEL_TRACES_SAMPLER", "value": "always_on"}],
        "extraVolumes": [{"name": "audit", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "audit", "mountPath": "/var/log/capstan"}],
        "settings": {
            "audit_log": "/var/log/capstan/audit.jsonl",
            "otlp_endpoint": "http://otel:4317",
        },
        "networkPolicy": {"egress": [{"ports": [{"port": 4317}]}]},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "service": {"type": "LoadBalancer", "annotations": {"e": "f"}, "labels": {"g": "h"}},
    },
}

# Values that the chart refuses, and a part of the reason.
CONTRADICTIONS = {
    "nobody may call": ({}, "nothing says who may call"),
    "nothing encrypts tokens": (TOKENS | {"tls": {}}, "nothing encrypts calls"),
    "nothing encrypts scalars": (INSECURE | {"tls": {}}, "nothing encrypts calls"),
    "plain text behind a certificate": (
        TOKENS | {"envoy": {"enabled": True, "tls": {"secret": "a"}}},
        "envoy.tls.secret requires tls.secret",
    ),
    "tls and plain text": (TOKENS | {"tls": {"secret": "a", "insecure": True}}, "not both"),
    "two sources of tokens": (
        {"auth": {"tokens": {"secret": "a", "content": "b"}}},
        "auth.tokens: set secret or content",
    ),
    "two sources of tenants": (
        INSECURE | {"tenants": {"secret": "a", "content": "b"}},
        "tenants: set secret or content",
    ),
    "keys without an issuer": ({"auth": {"jwt": {"secret": "keys"}}}, "requires auth.jwt.issuer"),
    "client certificates without tls": (
        {"auth": {"clientCa": {"secret": "authorities"}}},
        "require tls.secret",
    ),
    "metrics over tls without a certificate": (
        INSECURE | {"tls": {"metrics": True}},
        "require tls.secret",
    ),
    "two mig slices": (
        INSECURE | {"gpu": {"enabled": True, "resource": "nvidia.com/mig-1g.10gb", "count": 2}},
        "one MIG slice only",
    ),
    "more gpus needed than given": (
        INSECURE | {"gpu": {"enabled": True, "min": 2}},
        "gpu.min must be at most gpu.count",
    ),
    "scaling to fewer than the least": (
        INSECURE | {"autoscaling": KEDA | {"minReplicas": 7}},
        "minReplicas must be at most",
    ),
    "keda without prometheus": (
        INSECURE | {"autoscaling": {"enabled": True}},
        "requires autoscaling.prometheusAddress",
    ),
    "envoy that cannot check replicas": (
        TOKENS | TLS | {"envoy": {"enabled": True}},
        "requires envoy.upstream.serverName",
    ),
    "envoy that names nobody": (
        MTLS | {"envoy": {"enabled": True, "upstream": UPSTREAM}},
        "requires envoy.upstream.caller",
    ),
}

# Values that values.schema.json refuses; each is the only fault. Paths are those of the complaint.
INVALID = {
    "replica": ({"replica": 2}, "replica"),
    "auth.token": ({"auth": {"insecure": True, "token": {}}}, "token"),
    "settings.jobs_maximum": ({"settings": {"jobs_maximum": 2}}, "jobs_maximum"),
    "settings.listen, which the chart sets": ({"settings": {"listen": "[::]:1"}}, "listen"),
    "settings.jobs_max of 0": ({"settings": {"jobs_max": 0}}, "settings.jobs_max"),
    "settings.workers of 65": ({"settings": {"workers": 65}}, "settings.workers"),
    "settings.jobs_max as text": ({"settings": {"jobs_max": "many"}}, "settings.jobs_max"),
    "settings.store_bytes_max in GB": ({"settings": {"store_bytes_max": "4 GB"}}, "store_bytes"),
    "settings.log_format": ({"settings": {"log_format": "xml"}}, "settings.log_format"),
    "gpu.count of 0": ({"gpu": {"count": 0}}, "gpu.count"),
    "gpu.resource without a vendor": ({"gpu": {"resource": "gpu"}}, "gpu.resource"),
    "negative replicas": ({"replicas": -1}, "replicas"),
    "replicas as text": ({"replicas": "2"}, "replicas"),
    "a memory limit that is missing": ({"resources": {"limits": {"memory": None}}}, "memory"),
    "a size without a unit that exists": ({"persistence": {"size": "50GB"}}, "persistence.size"),
    "service.type": ({"service": {"type": "External"}}, "service.type"),
    "autoscaling.kind": ({"autoscaling": {"kind": "vpa"}}, "autoscaling.kind"),
    "a ratio of 0": ({"autoscaling": {"ratio": 0}}, "autoscaling.ratio"),
    "a name in capitals": ({"tls": {"secret": "Server"}}, "tls.secret"),
    "bindAddress": ({"bindAddress": "10.0.0.1"}, "bindAddress"),
    "envoy.upstream.caller": ({"envoy": {"upstream": {"caller": "uid:0"}}}, "upstream.caller"),
}
