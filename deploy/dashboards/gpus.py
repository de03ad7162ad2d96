"""The dashboard of GPUs: which ones serve, their memory, readings and faults."""

from panels import SELECTED, dashboard, series, stat


def gpus():
    """Builds the dashboard."""
    return dashboard(
        "Capstan GPUs",
        "capstan-gpus",
        {
            "State": _state(),
            "Memory": _memory(),
            "Readings": _readings(),
            "Faults": _faults(),
        },
    )


def _count(state: str) -> str:
    return f'sum(capstan_devices{{{SELECTED},state="{state}"}})'


def _gauge(metric: str) -> tuple[str, str]:
    return f"{metric}{{{SELECTED}}}", "{{instance}} GPU {{device}}"


def _increase(metric: str, by: str) -> str:
    return f"sum by ({by}) (increase({metric}{{{SELECTED}}}[$__rate_interval]))"


def _state() -> list:
    return [
        stat("Used", "short", _count("used")),
        stat("Restarting", "short", _count("restarting")),
        stat("Left out", "short", _count("left_out")),
    ]


def _memory() -> list:
    leased = f'capstan_device_memory_bytes{{{SELECTED},state="leased"}}'
    free = f'capstan_device_memory_bytes{{{SELECTED},state="free"}}'
    share = f"{leased} / ignoring (state) ({leased} + ignoring (state) {free})"
    return [
        series("Leased memory", "percentunit", (share, "{{instance}} GPU {{device}}")),
        series("Pinned bases", "bytes", _gauge("capstan_pinned_bases_bytes")),
    ]


def _readings() -> list:
    return [
        series("Temperature", "celsius", _gauge("capstan_device_temperature_celsius")),
        series("Clock", "hertz", _gauge("capstan_device_clock_hertz")),
        series("Power", "watt", _gauge("capstan_device_power_watts")),
    ]


def _faults() -> list:
    by = "instance"
    return [
        series(
            "Workers",
            "short",
            (_increase("capstan_worker_restarts_total", by), "{{instance}} restarts"),
            (_increase("capstan_worker_timeouts_total", by), "{{instance}} timeouts"),
            (_increase("capstan_quarantines_total", by), "{{instance}} pauses"),
            (_increase("capstan_repeated_runs_total", by), "{{instance}} repeated runs"),
        ),
        series(
            "Faults",
            "short",
            (_increase("capstan_device_faults_total", f"{by}, class"), "{{instance}} {{class}}"),
        ),
        series("Uncorrected memory errors", "short", _gauge("capstan_device_ecc_uncorrected")),
        series(
            "MSMs computed in a batch with others",
            "short",
            (_increase("capstan_batched_jobs_total", by), "{{instance}}"),
        ),
    ]
