"""The dashboard of a service: its calls, where their time goes, what is refused, its memory."""

import re
from pathlib import Path

from panels import SELECTED, SERVICE, dashboard, series, stat

_DEPLOY = Path(__file__).parents[1]
_METRIC = re.compile(r"^\| `((?:capstan|process)_\w+)` \|([^|]*)\| (.+) \|$", re.MULTILINE)

# Clients ask with Stat whether the server has an object before they put it, by its hash, and which
# server answers. The answer that it is unknown is no failure.
PROBE = 'op="stat",outcome="OBJECT_UNKNOWN"'
OK = 'outcome="OK"'
FAILED = 'outcome!="OK"'


def overview():
    """Builds the dashboard."""
    return dashboard(
        "Capstan",
        "capstan-overview",
        "The calls of the selected replicas, where their time goes, what is refused, and what "
        "tenants and processes use.",
        {
            "Now": _now(),
            "Calls": _calls(),
            "Where the time goes": _phases(),
            "Refused": _refused(),
            "Memory and connections": _memory(),
            "Tenants": _tenants(),
            "Process": _process(),
            "Others": _others(),
        },
    )


def _rate(metric: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{SELECTED}{labels}}}[$__rate_interval]))"


def _quantile(of: float, phase: str) -> str:
    rate = _rate("capstan_phase_seconds_bucket", "le, op", f',phase="{phase}"')
    return f"histogram_quantile({of}, {rate})"


def _gauge(metric: str, of: str = "") -> tuple[str, str]:
    return f"{metric}{{{SELECTED}}}", f"{{{{instance}}}} {of}".strip()


def _calls_with(labels: str) -> str:
    return f"rate(capstan_jobs_total{{{SELECTED},{labels}}}[$__rate_interval])"


def _now() -> list:
    ok = f"sum({_calls_with(OK)} or {_calls_with(PROBE)})"
    every = f"sum(rate(capstan_jobs_total{{{SELECTED}}}[$__rate_interval]))"
    failed = f'sum(increase(capstan_jobs_total{{{SELECTED},outcome="VERIFY_FAILED"}}[$__range]))'
    return [
        stat(
            "Replicas",
            "short",
            "Daemons that are scraped.",
            f"count(capstan_build_info{{{SELECTED}}})",
        ),
        stat("Calls", "reqps", "Calls that ended, of all operations.", every),
        stat(
            "Calls that succeed",
            "percentunit",
            "The part of all calls without an error. A client's question for an object that the "
            "server does not have counts as a success.",
            f"{ok} / {every}",
        ),
        stat(
            "Jobs that wait",
            "short",
            "Accepted jobs that no worker computes at the moment.",
            f"sum(capstan_queued_jobs{{{SELECTED}}})",
        ),
        stat(
            "Waiting : computing",
            "none",
            "The time that jobs wait for a worker, divided by the time that they compute. "
            "Autoscaling uses it.",
            f"capstan:queue_compute_ratio:rate5m{{{SERVICE}}}",
        ),
        stat(
            "Results that failed their check",
            "short",
            "In the range of time shown. They were not sent. Any at all is a reason to suspect the "
            "hardware.",
            f"{failed} or vector(0)",
        ),
    ]


def _calls() -> list:
    failing = f"{_calls_with(FAILED)} unless {_calls_with(PROBE)}"
    return [
        series(
            "Calls by operation",
            "reqps",
            "Calls that ended, whatever their outcome.",
            (_rate("capstan_jobs_total", "op"), "{{op}}"),
        ),
        series(
            "Calls that fail",
            "reqps",
            "By the reason of the error. Questions for objects that the server does not have are "
            "left out. CLIENT_GONE: the client has disconnected.",
            (f"sum by (op, outcome) ({failing})", "{{op}} {{outcome}}"),
        ),
        series(
            "Payload",
            "Bps",
            "Bytes of scalars, points, vectors and results.",
            (_rate("capstan_received_bytes_total", "instance"), "{{instance}} received"),
            (_rate("capstan_sent_bytes_total", "instance"), "{{instance}} sent"),
        ),
    ]


def _phases() -> list:
    shares = _rate("capstan_phase_seconds_sum", "phase")
    model = _rate("capstan_modelled_time_ratio_sum", "engine")
    runs = _rate("capstan_modelled_time_ratio_count", "engine")
    return [
        series(
            "Seconds of jobs per second, by phase",
            "short",
            "Many seconds of queue: too few workers. Of receive: slow senders.",
            (shares, "{{phase}}"),
        ),
        series(
            "Time to compute",
            "s",
            "Without the time in the queue.",
            (_quantile(0.5, "compute"), "{{op}} median"),
            (_quantile(0.99, "compute"), "{{op}} 99 %"),
        ),
        series(
            "Time to wait for a worker",
            "s",
            "If it is long while devices are idle, raise workers.",
            (_quantile(0.5, "queue"), "{{op}} median"),
            (_quantile(0.99, "queue"), "{{op}} 99 %"),
        ),
        series(
            "Modelled time : measured time of programs",
            "none",
            "About 1 if the model suits the host. program_time_max_s depends on it.",
            (f"{model} / {runs}", "{{engine}}"),
        ),
    ]


def _refused() -> list:
    return [
        series(
            "By limit",
            "reqps",
            "Calls refused because a limit of the server, a connection or a tenant was reached.",
            (_rate("capstan_rejected_total", "limit"), "{{limit}}"),
        ),
        series(
            "Unknown callers",
            "reqps",
            "Calls without valid credentials. The log has addresses.",
            (_rate("capstan_refused_credentials_total", "reason"), "{{reason}}"),
        ),
        series(
            "Lost lines of the audit log",
            "short",
            "The disk of audit_log is full, fails, or is too slow.",
            (_rate("capstan_audit_lost_total", "instance"), "{{instance}}"),
        ),
        series(
            "Open calls",
            "bytes",
            "Memory counted for open calls, of 96 MiB, and health checks, of 32 MiB.",
            _gauge("capstan_open_call_bytes", "calls"),
            _gauge("capstan_health_check_bytes", "health checks"),
        ),
    ]


def _memory() -> list:
    return [
        series(
            "Jobs that wait",
            "short",
            "Accepted jobs that no worker computes at the moment.",
            _gauge("capstan_queued_jobs"),
        ),
        series(
            "Payload memory",
            "bytes",
            "In flight: reserved for jobs and uploads (bytes_in_flight_max). Spare: wiped and "
            "kept. Shared: regions of local clients.",
            _gauge("capstan_in_flight_bytes", "in flight"),
            _gauge("capstan_spare_memory_bytes", "spare"),
            _gauge("capstan_region_bytes", "shared"),
        ),
        series(
            "Stored bases and matrices",
            "bytes",
            "In memory, or mapped from data_dir (store_bytes_max).",
            _gauge("capstan_store_bytes"),
        ),
        series(
            "Open connections",
            "short",
            "Of all listeners for gRPC (connections_max).",
            _gauge("capstan_connections"),
        ),
    ]


def _tenants() -> list:
    def by_tenant(metric: str) -> tuple[str, str]:
        return f"sum by (tenant) ({metric}{{{SELECTED}}})", "{{tenant}}"

    needs = "Needs the setting metrics_tenants."
    return [
        series(
            "Jobs by tenant",
            "short",
            f"Accepted jobs, which wait or run. {needs}",
            by_tenant("capstan_tenant_jobs"),
        ),
        series(
            "Bytes in flight by tenant",
            "bytes",
            f"Payload and working memory of jobs and uploads. {needs}",
            by_tenant("capstan_tenant_bytes_in_flight"),
        ),
        series(
            "Stored bytes by tenant",
            "bytes",
            f"Equal bases of two tenants count for both. {needs}",
            by_tenant("capstan_tenant_store_bytes"),
        ),
        series(
            "Connections by tenant",
            "short",
            f"Connections on which a tenant has made a call. {needs}",
            by_tenant("capstan_tenant_connections"),
        ),
    ]


def _process() -> list:
    cpu = _rate("process_cpu_seconds_total", "instance")
    # The selectors fit other programs, too: only daemons have the second metric.
    of_daemons = f"and on (instance) capstan_build_info{{{SELECTED}}}"
    resident, _ = _gauge("process_resident_memory_bytes")
    files, limit = _gauge("process_open_fds")[0], _gauge("process_max_fds")[0]
    started, expiry = (
        _gauge("process_start_time_seconds")[0],
        _gauge("capstan_certificate_expiry_timestamp_seconds")[0],
    )
    return [
        series(
            "Processors and threads",
            "short",
            "Processors that the daemon's process keeps busy, and its threads. Workers of GPUs are "
            "other processes.",
            (f"{cpu} {of_daemons}", "{{instance}} processors"),
            (f"{_gauge('process_threads')[0]} {of_daemons}", "{{instance}} threads"),
        ),
        series(
            "Resident memory",
            "bytes",
            "Of the daemon's process. Bases in data_dir count while their pages are in memory.",
            (f"{resident} {of_daemons}", "{{instance}}"),
        ),
        series(
            "Open files",
            "percentunit",
            "The part of the limit on open files that is in use.",
            (f"{files} / {limit} {of_daemons}", "{{instance}}"),
        ),
        series(
            "Uptime and certificates",
            "d",
            "Days since the start, and until the first certificate of a file expires.",
            (f"(time() - {started}) / 86400 {of_daemons}", "{{instance}} since the start"),
            (f"({expiry} - time()) / 86400", "{{instance}} {{setting}}"),
        ),
    ]


def _others() -> list:
    """A panel for each metric of deploy/README.md that no other panel and no rule names."""
    places = [*Path(__file__).parent.glob("*.py"), _DEPLOY / "helm/capstan/files/rules.yaml"]
    named = re.findall(r"\w+", "".join(path.read_text() for path in places))
    named = {name.removesuffix("_sum").removesuffix("_bucket") for name in named}
    panels = []
    for name, labels, meaning in _METRIC.findall((_DEPLOY / "README.md").read_text()):
        if name not in named:
            by = ", ".join(["instance", *filter(None, labels.strip().split(", "))])
            shown = _rate(name, by) if name.endswith("_total") else _gauge(name)[0]
            unit = "bytes" if name.endswith("_bytes") else "short"
            legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
            title = name.removeprefix("capstan_").replace("_", " ").capitalize()
            panels.append(
                series(title, unit, f"{meaning[0].upper()}{meaning[1:]}.", (shown, legend))
            )
    return panels
