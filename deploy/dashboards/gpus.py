"""The dashboard of GPUs: which ones serve, their memory, readings and faults."""

from panels import SELECTED, dashboard, series, stat


def gpus():
    """Builds the dashboard."""
    return dashboard(
        "Capstan GPUs",
        "capstan-gpus",
        "The GPUs of the selected replicas: which ones serve, their memory, readings and faults.",
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
        stat("Used", "short", "GPUs that passed their self-test and serve.", _count("used")),
        stat(
            "Restarting",
            "short",
            "GPUs whose worker process has ended and is being replaced. It should return to 0.",
            _count("restarting"),
        ),
        stat(
            "Left out",
            "short",
            "GPUs that failed their self-test or cannot be used. The log says why.",
            _count("left_out"),
        ),
    ]


def _memory() -> list:
    leased = f'capstan_device_memory_bytes{{{SELECTED},state="leased"}}'
    free = f'capstan_device_memory_bytes{{{SELECTED},state="free"}}'
    share = f"{leased} / ignoring (state) ({leased} + ignoring (state) {free})"
    return [
        series(
            "Leased memory",
            "percentunit",
            "The part of the memory for jobs that jobs, workspaces and resident bases take. Idle "
            "bases are evicted when it is full.",
            (share, "{{instance}} GPU {{device}}"),
        ),
        series(
            "Pinned bases",
            "bytes",
            "Memory that bases keep because callers have pinned them (pinned_bases_percent).",
            _gauge("capstan_pinned_bases_bytes"),
        ),
    ]


def _readings() -> list:
    return [
        series(
            "Temperature",
            "celsius",
            "Temperature of the die. A hot GPU lowers its clock.",
            _gauge("capstan_device_temperature_celsius"),
        ),
        series(
            "Clock",
            "hertz",
            "Clock of the multiprocessors. If it is low while jobs wait, look at the power draw.",
            _gauge("capstan_device_clock_hertz"),
        ),
        series("Power", "watt", "Power draw of the board.", _gauge("capstan_device_power_watts")),
    ]


def _faults() -> list:
    by = "instance"
    return [
        series(
            "Workers",
            "short",
            "Worker processes that were replaced or did not answer, pauses of GPUs that lost too "
            "many, and runs that began again. All are 0 on a healthy host.",
            (_increase("capstan_worker_restarts_total", by), "{{instance}} restarts"),
            (_increase("capstan_worker_timeouts_total", by), "{{instance}} timeouts"),
            (_increase("capstan_quarantines_total", by), "{{instance}} pauses"),
            (_increase("capstan_repeated_runs_total", by), "{{instance}} repeated runs"),
        ),
        series(
            "Faults",
            "short",
            "Errors of the driver by class: exhausted (out of memory), misuse, fatal (the GPU is "
            "lost until its process ends).",
            (_increase("capstan_device_faults_total", f"{by}, class"), "{{instance}} {{class}}"),
        ),
        series(
            "Uncorrected memory errors",
            "short",
            "Since the driver was loaded. Reset or replace a GPU that has any.",
            _gauge("capstan_device_ecc_uncorrected"),
        ),
        series(
            "MSMs computed in a batch with others",
            "short",
            "Small MSMs over the same bases share one computation.",
            (_increase("capstan_batched_jobs_total", by), "{{instance}}"),
        ),
    ]
