"""Writes the dashboards as JSON into the chart.

python deploy/dashboards/generate.py
"""

from pathlib import Path

from gpus import gpus
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from overview import overview

FOLDER = Path(__file__).parents[1] / "helm/capstan/files/dashboards"


def generated() -> dict[str, str]:
    """The text of each file, by its name."""
    boards = (overview().build(), gpus().build())
    encode = JSONEncoder(sort_keys=True, indent=2).encode
    return {f"{board.uid}.json": encode(board) + "\n" for board in boards}


if __name__ == "__main__":
    for name, text in generated().items():
        (FOLDER / name).write_text(text)
