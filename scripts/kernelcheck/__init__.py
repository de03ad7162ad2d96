"""The modules of scripts/check-kernels."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "kernels"
BUDGETS = KERNELS / "budgets.toml"
# In ascending order; GPUs of 8.9 run the code of 86. `all` in a table row holds the numbers of the
# reference.
ARCHS = ("80", "86", "90", "100", "120")
REFERENCE = "90"
# The first architecture with programmatic dependent launch.
EARLY_ARCH = 90


class Problem(Exception):
    """An error with a message for the user."""
