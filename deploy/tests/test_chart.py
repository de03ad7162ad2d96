import functools
import json
import tomllib

import jsonschema
import kubernetes_validate
import pytest
import yaml
from cases import CASES, CONTRADICTIONS, INSECURE, INVALID
from chart import CHART, DEPLOY, Manifests, helm, template
from crds import SCHEMAS
from daemon import run as run_program

# The oldest that Chart.yaml allows, and the newest that the validator knows.
VERSIONS = ("1.29", "1.37")


def test_the_chart_passes_helms_lint():
    run = helm("lint", "--strict", str(CHART), values=CASES["everything-on"])
    assert run.returncode == 0, run.stdout


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    package = tomllib.loads((DEPLOY.parent / "Cargo.toml").read_text())["workspace"]["package"]
    assert chart["appVersion"] == chart["version"] == package["version"]


def validate(manifest):
    """Fails if Kubernetes would refuse an object."""
    if schema := SCHEMAS.get(manifest["kind"]):
        jsonschema.validate(manifest, schema)
    else:
        validate_core(json.dumps(manifest))


# Many cases have the same objects, and reading a schema takes a tenth of a second.
@functools.cache
def validate_core(manifest):
    for version in VERSIONS:
        kubernetes_validate.validate(json.loads(manifest), version, strict=True)


def test_every_object_is_valid(manifests):
    for manifest in manifests.all:
        validate(manifest)


def test_misspelt_fields_of_objects_are_found(manifests_of):
    manifests = manifests_of("everything-on")
    for kind in ("StatefulSet", "NetworkPolicy", "ServiceMonitor", "ScaledObject"):
        manifest = manifests.of_kind(kind)[0]
        wrong = manifest | {"spec": manifest["spec"] | {"selectors": {}}}
        with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
            validate(wrong)


def test_an_image_is_named_by_its_digest_if_there_is_one():
    digest = f"sha256:{'0' * 64}"
    image = {"repository": "a.example/capstan", "tag": "1", "digest": digest}
    values = CASES["envoy"] | {"image": image}
    values["envoy"] = values["envoy"] | {"image": {"digest": digest}}
    manifests = Manifests(values)
    assert manifests.daemon()["image"] == f"a.example/capstan@{digest}"
    [envoy] = manifests.only("Deployment")["spec"]["template"]["spec"]["containers"]
    assert envoy["image"] == f"envoyproxy/envoy@{digest}"
    run = template(INSECURE | {"image": image | {"digest": "sha256:0"}})
    assert run.returncode != 0 and "digest" in run.stderr


def test_the_memory_request_follows_the_limit():
    for limit in ("8Gi", "64Gi"):
        manifests = Manifests(INSECURE | {"resources": {"limits": {"memory": limit}}})
        resources = manifests.daemon()["resources"]
        assert resources["limits"]["memory"] == limit
        # Kubernetes requests as much as the limit if there is no request.
        assert resources["requests"].get("memory", limit) == limit


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_refused(name):
    values, reason = CONTRADICTIONS[name]
    run = template(values)
    assert run.returncode != 0
    assert reason in run.stderr


@pytest.mark.parametrize("name", INVALID)
def test_the_schema_refuses_invalid_values(name):
    values, place = INVALID[name]
    run = template(INSECURE | values)
    assert run.returncode != 0
    assert "don't meet the specifications of the schema" in run.stderr
    complaints = [line for line in run.stderr.splitlines() if line.startswith("- ")]
    assert complaints and place in complaints[0], run.stderr


def test_the_schema_has_every_value_and_no_other():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    definitions = schema["definitions"]

    def compare(path, value, schema):
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
        if "properties" in schema and path != "settings":
            assert set(value) == set(schema["properties"]), path
            for key in value:
                compare(f"{path}.{key}".lstrip("."), value[key], schema["properties"][key])

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    # Helm adds it to each chart.
    compare("", values | {"global": {}}, schema)


def test_every_value_is_used():
    text = "".join(path.read_text() for path in (CHART / "templates").rglob("*.*"))
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def leaves(value):
        for key, below in value.items():
            free = not isinstance(below, dict) or not below
            yield from [key] if free else leaves(below)

    for key in set(leaves(values)) - {"cpu", "memory", "grafana_dashboard"}:
        assert f".{key}" in text, key


def test_selectors_find_pods_and_ports(manifests):
    pods = manifests.pods()

    def ports_of(labels):
        found = [p for p in pods if labels.items() <= p["metadata"]["labels"].items()]
        assert len(found) == 1, labels
        ports = [p for c in found[0]["spec"]["containers"] for p in c["ports"]]
        return {port["name"]: port["containerPort"] for port in ports}

    for service in manifests.of_kind("Service"):
        ports = ports_of(service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    for policy in manifests.of_kind("NetworkPolicy"):
        ports = ports_of(policy["spec"]["podSelector"]["matchLabels"])
        for rule in policy["spec"]["ingress"]:
            assert {port["port"] for port in rule["ports"]} <= set(ports)
    for budget in manifests.of_kind("PodDisruptionBudget"):
        ports_of(budget["spec"]["selector"]["matchLabels"])
    for monitor in manifests.of_kind("ServiceMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"].items()
        services = manifests.of_kind("Service")
        found = [s for s in services if labels <= s["metadata"]["labels"].items()]
        assert len(found) == 1, "each replica is read once"
        names = {port["name"] for port in found[0]["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= names


def test_volumes_are_mounted_and_writable_folders_are_volumes(manifests):
    for pod in manifests.pods():
        volumes = {volume["name"] for volume in pod["spec"].get("volumes") or []}
        for container in pod["spec"]["containers"]:
            mounts = container["volumeMounts"] or []
            mounted = {mount["name"] for mount in mounts}
            assert container["securityContext"]["readOnlyRootFilesystem"]
            claims = {"data"} & mounted
            assert mounted - claims == volumes
            folders = [mount["mountPath"] for mount in mounts]
            nested = [(a, b) for a in folders for b in folders if b.startswith(f"{a}/")]
            assert not nested, "a folder in a read-only folder cannot be made"


def test_replicas_are_not_set_if_they_are_scaled(case, manifests):
    scaled = CASES[case].get("autoscaling", {}).get("enabled", False)
    assert ("replicas" in manifests.only("StatefulSet")["spec"]) != scaled


def test_a_pod_may_stop_as_long_as_the_daemon_drains(manifests):
    pod = manifests.only("StatefulSet")["spec"]["template"]["spec"]
    container = manifests.daemon()
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
    waits = int(before[1]) if before else 0
    grace = pod["terminationGracePeriodSeconds"]
    assert grace == waits + int(env["CAPSTAN_DRAIN_GRACE_S"]) + 10


def test_gpus_are_requested_and_required(case, manifests):
    gpu = CASES[case].get("gpu", {})
    resource = gpu.get("resource", "nvidia.com/gpu")
    container = manifests.daemon()
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    tolerations = manifests.only("StatefulSet")["spec"]["template"]["spec"].get("tolerations", [])
    if gpu.get("enabled"):
        assert container["resources"]["limits"][resource] == gpu.get("count", 1)
        assert env["CAPSTAN_CUDA_DEVICES_MIN"] == str(gpu.get("min", 1))
        assert env["CAPSTAN_ENGINE"] == ("cuda" if gpu.get("min", 1) else "auto")
        # That of the device plugin counts.
        assert "NVIDIA_VISIBLE_DEVICES" not in env
        assert "nvidia.com/gpu" in [toleration["key"] for toleration in tolerations]
    else:
        assert not [name for name in container["resources"]["limits"] if "/" in name]
        assert env["CAPSTAN_ENGINE"] == "cpu"
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_the_test_pod_calls_as_the_command_line_allows(case, manifests):
    """Without credentials there is no test pod, unless everyone may call."""
    pods = manifests.of_kind("Pod")
    values = CASES[case]
    insecure = values.get("auth", {}).get("insecure", False)
    assert bool(pods) == bool(insecure or values.get("tests"))
    for pod in pods:
        [container] = pod["spec"]["containers"]
        program, *arguments = container["command"]
        checked = run_program(program, *arguments, "--help")
        assert checked.returncode == 0, checked.stderr
        mounts = tuple(mount["mountPath"] for mount in container["volumeMounts"] or [])
        files = [argument for argument in arguments if argument.startswith("/")]
        assert all(file.startswith(mounts) for file in files)
