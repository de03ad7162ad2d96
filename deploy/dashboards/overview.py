"""The dashboard of a service: its calls, where their time goes, what is refused, its memory."""

from panels import SELECTED, SERVICE, dashboard, series, stat


def overview():
    """Builds the dashboard."""
    return dashboard(
        "Capstan",
        "capstan-overview",
        {
            "Now": _now(),
            "Calls": _calls(),
            "Where the time goes": _phases(),
            "Refused": _refused(),
            "Memory and connections": _memory(),
        },
    )


def _rate(metric: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{SELECTED}{labels}}}[$__rate_interval]))"


def _quantile(of: float, phase: str) -> str:
    rate = _rate("capstan_phase_seconds_bucket", "le, op", f',phase="{phase}"')
    return f"histogram_quantile({of}, {rate})"


def _now() -> list:
    ok = f'sum(rate(capstan_jobs_total{{{SELECTED},outcome="OK"}}[$__rate_interval]))'
    every = f"sum(rate(capstan_jobs_total{{{SELECTED}}}[$__rate_interval]))"
    failed = f'sum(increase(capstan_jobs_total{{{SELECTED},outcome="VERIFY_FAILED"}}[$__range]))'
    return [
        stat("Replicas", "short", f"count(capstan_build_info{{{SELECTED}}})"),
        stat("Calls", "reqps", every),
        stat("Calls that succeed", "percentunit", f"{ok} / {every}"),
        stat("Jobs that wait", "short", f"sum(capstan_queued_jobs{{{SELECTED}}})"),
        stat("Waiting : computing", "none", f"capstan:queue_compute_ratio:rate5m{{{SERVICE}}}"),
        stat("Results that failed their check", "short", f"{failed} or vector(0)"),
    ]


def _calls() -> list:
    failed = ',outcome!="OK"'
    return [
        series("Calls by operation", "reqps", (_rate("capstan_jobs_total", "op"), "{{op}}")),
        series(
            "Calls that fail",
            "reqps",
            (_rate("capstan_jobs_total", "op, outcome", failed), "{{op}} {{outcome}}"),
        ),
        series(
            "Payload",
            "Bps",
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
            (shares, "{{phase}}"),
            description="Many seconds of queue: too few workers. Of receive: slow senders.",
        ),
        series(
            "Time to compute",
            "s",
            (_quantile(0.5, "compute"), "{{op}} median"),
            (_quantile(0.99, "compute"), "{{op}} 99 %"),
        ),
        series(
            "Time to wait for a worker",
            "s",
            (_quantile(0.5, "queue"), "{{op}} median"),
            (_quantile(0.99, "queue"), "{{op}} 99 %"),
        ),
        series(
            "Modelled time : measured time of programs",
            "none",
            (f"{model} / {runs}", "{{engine}}"),
            description="About 1 if the model suits the host. program_time_max_s depends on it.",
        ),
    ]


def _refused() -> list:
    return [
        series("By limit", "reqps", (_rate("capstan_rejected_total", "limit"), "{{limit}}")),
        series(
            "Unknown callers",
            "reqps",
            (_rate("capstan_refused_credentials_total", "reason"), "{{reason}}"),
        ),
        series(
            "Lost lines of the audit log",
            "short",
            (_rate("capstan_audit_lost_total", "instance"), "{{instance}}"),
        ),
        series(
            "Open calls",
            "bytes",
            (f"capstan_open_call_bytes{{{SELECTED}}}", "{{instance}} calls"),
            (f"capstan_health_check_bytes{{{SELECTED}}}", "{{instance}} health checks"),
            description="Of 96 MiB and 32 MiB.",
        ),
    ]


def _memory() -> list:
    def gauge(metric: str) -> tuple[str, str]:
        return f"{metric}{{{SELECTED}}}", "{{instance}}"

    return [
        series("Jobs that wait", "short", gauge("capstan_queued_jobs")),
        series(
            "Payload memory",
            "bytes",
            (gauge("capstan_in_flight_bytes")[0], "{{instance}} in flight"),
            (gauge("capstan_spare_memory_bytes")[0], "{{instance}} spare"),
            (gauge("capstan_region_bytes")[0], "{{instance}} shared"),
        ),
        series(
            "Stored bases and matrices",
            "bytes",
            gauge("capstan_store_bytes"),
        ),
        series("Open connections", "short", gauge("capstan_connections")),
    ]
