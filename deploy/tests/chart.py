"""Runs helm on the chart."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[1]
CHART = DEPLOY / "helm/capstan"
NAMESPACE = "proofs"
RELEASE = "capstan"
# Where the tools of scripts/wheels/deploy.txt are.
TOOLS = Path(sys.executable).parent


def helm(*arguments: str, values: dict) -> subprocess.CompletedProcess:
    """Runs helm with values on standard input, and without a home folder or a cluster."""
    command = [str(TOOLS / "helm"), *arguments, "--values", "-"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return subprocess.run(
        command,
        check=False,
        input=yaml.safe_dump(values),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def template(values: dict) -> subprocess.CompletedProcess:
    """Renders the chart."""
    return helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, values=values)


class _UniqueKeys(yaml.CSafeLoader):
    """Refuses a map with two equal keys, of which Kubernetes would drop one."""

    def construct_mapping(self, node, deep=False):
        """Makes a dict."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(map(str, keys))), f"twice in a map: {keys}{node.start_mark}"
        return super().construct_mapping(node, deep=deep)


class Manifests:
    """The rendered objects of a case."""

    def __init__(self, values: dict):
        run = template(values)
        assert run.returncode == 0, run.stderr
        documents = yaml.load_all(run.stdout, Loader=_UniqueKeys)
        self.all = [document for document in documents if document]

    def of_kind(self, kind: str) -> list[dict]:
        """The objects of a kind."""
        return [manifest for manifest in self.all if manifest["kind"] == kind]

    def only(self, kind: str, ending: str = "") -> dict:
        """The only object of a kind whose name ends like this."""
        found = [m for m in self.of_kind(kind) if m["metadata"]["name"].endswith(ending)]
        assert len(found) == 1, [m["metadata"]["name"] for m in found]
        return found[0]

    def pods(self) -> list[dict]:
        """Templates of pods, and pods, each with metadata and spec."""
        kinds = ("StatefulSet", "Deployment")
        templates = [m["spec"]["template"] for m in self.all if m["kind"] in kinds]
        return templates + self.of_kind("Pod")

    def daemon(self) -> dict:
        """The container of the daemon."""
        return self.only("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
