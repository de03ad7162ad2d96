"""The metrics of the daemon: those that a running one exports, and those of the documents."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SERIES = re.compile(r"^((?:capstan|process)_\w+?)(?:\{(.*)\})? \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_ROW = re.compile(r"^\| `((?:capstan|process)_\w+)` \|([^|]*)\|", re.MULTILINE)


def live(text: str) -> tuple[dict[str, set[str]], set[tuple[str, str]]]:
    """The labels of each series in a scrape, and all labels with their values."""
    labels, values = {}, set()
    for series in _SERIES.finditer(text):
        found = _LABEL.findall(series[2] or "")
        labels.setdefault(series[1], set()).update(name for name, _ in found)
        values |= set(found)
    return labels, values


def documented() -> dict[str, set[str]]:
    """The labels of each metric in deploy/README.md, whose table the daemon's tests check."""
    rows = _ROW.finditer((_ROOT / "deploy/README.md").read_text())
    return {row[1]: set(filter(None, row[2].strip().split(", "))) for row in rows}


def declared_histograms() -> set[str]:
    """The metrics that have series for buckets, sums and counts."""
    source = (_ROOT / "src/server/telemetry/metrics/mod.rs").read_text()
    return set(re.findall(r'Histogram "(capstan_\w+)"', source))


def series() -> dict[str, set[str]]:
    """The labels of every series."""
    labels = {}
    for name, names in documented().items():
        if name in declared_histograms():
            labels |= {f"{name}_{part}": names for part in ("sum", "count")}
            labels[f"{name}_bucket"] = names | {"le"}
        else:
            labels[name] = names
    return labels


def reasons() -> set[str]:
    """The reasons of errors that the contract lists, and outcomes without a reason."""
    contract = (_ROOT / "proto/capstan/v1/types.proto").read_text()
    start, end = contract.index("ErrorInfo.reason is:"), contract.index("\nsyntax")
    words = set(re.findall(r"\b[A-Z][A-Z_]+\b", contract[start:end]))
    return words | {"OK", "TRANSPORT", "CLIENT_GONE"}


def text_in_code(value: str) -> bool:
    """Whether the code has this text, as it must if it is a label's value."""
    files = [
        "server/telemetry/metrics/mod.rs",
        "gpu/device/fault.rs",
        "server/grpc/objects/object_checks.rs",
    ]
    return any(f'"{value}"' in (_ROOT / "src" / file).read_text() for file in files)
