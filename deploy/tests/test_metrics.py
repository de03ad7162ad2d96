import json
import re
import shutil
import subprocess

import exported
import generate
import promql
import pytest
import yaml
from chart import CHART, DEPLOY
from daemon import run

RULES = CHART / "files/rules.yaml"
TESTS = DEPLOY / "alerts/tests.yaml"


def rules():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions():
    """Every expression, by its place."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    for path in sorted((CHART / "files/dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                found[f"{path.stem}: {panel['title']} {target['refId']}"] = target["expr"]
    return found


@pytest.fixture(scope="module")
def scrape(daemon):
    """What a daemon exports that has computed, and refused a call."""
    target = f"http://{daemon.address}"
    for operation, lg_n, is_refused in (("msm", 6, False), ("ntt", 6, False), ("msm", 14, True)):
        bench = ("bench", "--op", operation, "--sizes", lg_n, "--repeats", "2")
        ran = run("capstan", "--server", target, *bench, "--concurrency", "4")
        assert (ran.returncode != 0) == is_refused, ran.stderr
    return exported.live(daemon.metrics())


def complaints(expression, values):
    """What is wrong with an expression, given the labels and values of a running daemon."""
    series, recorded = exported.series(), {r["record"] for r in rules() if "record" in r}
    for use in promql.uses(expression):
        if use.name in recorded | {"up"}:
            known = promql.TARGET_LABELS
        elif use.name in series:
            known = series[use.name] | promql.TARGET_LABELS
        else:
            yield f"no series {use.name}"
            continue
        yield from (f"{use.name} has no label {label}" for label in use.labels - known)
        for label, value in use.values:
            of_target = label in promql.TARGET_LABELS
            is_reason = label in ("outcome", "limit", "reason") and value in exported.reasons()
            is_known = (label, value) in values or is_reason or exported.text_in_code(value)
            if not (of_target or is_known):
                yield f"{use.name} has no {label} {value}"


def test_expressions_name_series_and_labels_of_the_daemon(scrape):
    found = expressions()
    assert len(found) > 40
    wrong = {place: list(complaints(text, scrape[1])) for place, text in found.items()}
    assert not {place: why for place, why in wrong.items() if why}


@pytest.mark.parametrize(
    "wrong",
    [
        "rate(capstan_jobs[5m])",
        "capstan_phase_seconds",
        "sum by (operation) (rate(capstan_jobs_total[5m]))",
        'capstan_jobs_total{outcome="VERIFICATION_FAILED"}',
        'capstan_jobs_total{outcome=~"INTERNAL|LOST_TWISE"}',
        'rate(capstan_phase_seconds_sum{phase="queued"}[5m])',
        'capstan_devices{state="left-out"}',
        'capstan_devices{stat="left_out"}',
        "capstan_store_bytes / on (device) capstan_store_objects",
        "capstan:queue_ratio",
    ],
)
def test_wrong_names_are_found(scrape, wrong):
    assert list(complaints(wrong, scrape[1]))


def test_a_running_daemon_exports_the_documented_labels(scrape):
    labels, _ = scrape
    series = exported.series()
    assert len(labels) >= 14 and "capstan_rejected_total" in labels
    assert {name: labels[name] for name in labels} == {name: series.get(name) for name in labels}


def test_every_metric_is_shown_or_alerted_on():
    named = {use.name for text in expressions().values() for use in promql.uses(text)}
    stems = {name.removesuffix(end) for name in named for end in ("_sum", "_count", "_bucket", "")}
    assert not exported.documented().keys() - stems


def test_panels_and_dashboards_have_descriptions():
    for text in generate.generated().values():
        board = json.loads(text)
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        assert board["description"]
        without = [panel["title"] for panel in panels if not panel.get("description")]
        assert not without


def test_a_question_for_an_unknown_object_is_no_failed_call(tmp_path):
    """Clients ask before each Put."""
    [overview] = [text for name, text in generate.generated().items() if "overview" in name]
    panels = {panel["title"]: panel for panel in json.loads(overview)["panels"]}

    def expression(title):
        text = panels[title]["targets"][0]["expr"]
        return re.sub(r"\$(?!__)\w+", ".*", text).replace("$__rate_interval", "5m")

    def calls(op, outcome, per_minute):
        labels = f'namespace="n",job="c",instance="a",op="{op}",outcome="{outcome}"'
        return {
            "series": f"capstan_jobs_total{{{labels}}}",
            "values": f"0+{per_minute}x20",
        }

    def sample(value, labels=""):
        return {"labels": f"{{{labels}}}", "value": value}

    test = {
        "interval": "1m",
        "input_series": [
            calls("stat", "OBJECT_UNKNOWN", 60),
            calls("put", "OK", 60),
            calls("msm", "OBJECT_UNKNOWN", 120),
        ],
        "promql_expr_test": [
            {
                "expr": expression("Calls that succeed"),
                "eval_time": "10m",
                "exp_samples": [sample(0.5)],
            },
            {
                "expr": expression("Calls that fail"),
                "eval_time": "10m",
                "exp_samples": [sample(2, 'op="msm",outcome="OBJECT_UNKNOWN"')],
            },
        ],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    ran = promtool("test", "rules", path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def promtool(*arguments):
    program = shutil.which("promtool")
    assert program, "promtool is not in PATH: run deploy/check"
    command = [program, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_promtool_accepts_the_rules_and_their_tests():
    for arguments in (("check", "rules", RULES), ("test", "rules", TESTS)):
        ran = promtool(*arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_is_tested_to_fire_and_not_to_fire():
    fires, silent = set(), set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for case in test.get("alert_rule_test", []):
            (fires if case["exp_alerts"] else silent).add(case["alertname"])
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert fires == silent == alerts


def test_wrong_rules_fail_their_tests(tmp_path):
    """The tests find a rule that names another phase."""
    (tmp_path / "alerts").mkdir()
    (tmp_path / "helm/capstan/files").mkdir(parents=True)
    shutil.copy(TESTS, tmp_path / "alerts/tests.yaml")
    wrong = RULES.read_text().replace('phase="queue"', 'phase="receive"')
    (tmp_path / "helm/capstan/files/rules.yaml").write_text(wrong)
    assert promtool("test", "rules", tmp_path / "alerts/tests.yaml").returncode != 0


def test_the_chart_has_the_rules(manifests_of):
    manifests = manifests_of("monitoring")
    spec = manifests.only("PrometheusRule")["spec"]
    assert spec == yaml.safe_load(RULES.read_text())
    dashboards = manifests.only("ConfigMap", "-dashboards")["data"]
    assert dashboards == generate.generated()


def test_autoscaling_reads_a_recorded_series(manifests_of):
    [trigger] = manifests_of("keda").only("ScaledObject")["spec"]["triggers"]
    [use] = promql.uses(trigger["metadata"]["query"])
    assert use.name in {rule.get("record") for rule in rules()}
    assert use.values == {("namespace", "proofs"), ("job", "capstan")}
    # The label `job` is the name of the release.
    monitor = manifests_of("monitoring").only("ServiceMonitor")["spec"]
    service = manifests_of("monitoring").only("Service", "-replicas")
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "capstan"


def test_the_committed_dashboards_are_those_of_the_code():
    committed = {path.name: path.read_text() for path in generate.FOLDER.iterdir()}
    assert committed == generate.generated(), "run deploy/dashboards/generate.py"


def test_panels_have_ids_and_titles_and_do_not_overlap():
    for text in generate.generated().values():
        panels = json.loads(text)["panels"]
        places = set()
        for panel in panels:
            assert panel["title"]
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & places, panel["title"]
            places |= cells
        ids = [panel["id"] for panel in panels]
        assert len(ids) == len(set(ids))
