"""Schemas of the custom kinds, as far as the chart uses them: unknown fields are refused.

They follow the API references of the Prometheus operator (monitoring.coreos.com/v1) and of KEDA
(keda.sh/v1alpha1).
"""

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"}
_COUNT = {"type": "integer", "minimum": 0}


def _map(required: dict, optional: dict | None = None) -> dict:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def _list(of: dict) -> dict:
    return {"type": "array", "items": of, "minItems": 1}


def _kind(group: str, kind: str, spec: dict) -> dict:
    names = {"name": _TEXT, "namespace": _TEXT}
    return _map(
        {
            "apiVersion": {"const": group},
            "kind": {"const": kind},
            "metadata": _map(names, {"labels": _TEXTS, "annotations": _TEXTS}),
            "spec": spec,
        }
    )


_SELECTOR = _map({"matchLabels": _TEXTS})
_KEY = _map({"name": _TEXT, "key": _TEXT})
_TLS = _map({}, {"serverName": _TEXT, "ca": _map({"secret": _KEY})})
_ENDPOINT = _map(
    {"port": _TEXT, "path": _TEXT, "interval": _DURATION},
    {"scheme": {"enum": ["http", "https"]}, "tlsConfig": _TLS},
)
_SERVICE_MONITOR = _map(
    {"selector": _SELECTOR, "endpoints": _list(_ENDPOINT)},
    {"jobLabel": _TEXT, "namespaceSelector": _map({"matchNames": _list(_TEXT)})},
)

_RECORDING = _map({"record": _TEXT, "expr": _TEXT})
_ALERT = _map(
    {"alert": _TEXT, "expr": _TEXT, "labels": _TEXTS, "annotations": _TEXTS}, {"for": _DURATION}
)
_GROUP = _map({"name": _TEXT, "rules": _list({"oneOf": [_RECORDING, _ALERT]})})

_POLICY = _map({"type": {"enum": ["Pods", "Percent"]}, "value": _COUNT, "periodSeconds": _COUNT})
_SCALING = _map({"policies": _list(_POLICY)}, {"stabilizationWindowSeconds": _COUNT})
_TRIGGER = _map(
    {
        "type": {"const": "prometheus"},
        "metricType": {"enum": ["Value", "AverageValue"]},
        "metadata": _map(
            {"serverAddress": _TEXT, "query": _TEXT, "threshold": _TEXT},
            {"ignoreNullValues": {"enum": ["true", "false"]}},
        ),
    }
)
_HPA = _map({"behavior": _map({}, {"scaleUp": _SCALING, "scaleDown": _SCALING})})
_SCALED_OBJECT = _map(
    {
        "scaleTargetRef": _map({"name": _TEXT, "kind": _TEXT, "apiVersion": _TEXT}),
        "minReplicaCount": _COUNT,
        "maxReplicaCount": _COUNT,
        "triggers": _list(_TRIGGER),
    },
    {"advanced": _map({"horizontalPodAutoscalerConfig": _HPA})},
)

SCHEMAS = {
    "ServiceMonitor": _kind("monitoring.coreos.com/v1", "ServiceMonitor", _SERVICE_MONITOR),
    "PrometheusRule": _kind(
        "monitoring.coreos.com/v1", "PrometheusRule", _map({"groups": _list(_GROUP)})
    ),
    "ScaledObject": _kind("keda.sh/v1alpha1", "ScaledObject", _SCALED_OBJECT),
}
