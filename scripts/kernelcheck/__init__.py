"""What scripts/check-kernels is made of."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "kernels"
BUDGETS = KERNELS / "budgets.toml"
# Ascending. Table rows hold the numbers of the reference.
ARCHS = ("80", "86", "89", "90", "100", "120")
REFERENCE = "90"
# The first architecture with programmatic dependent launch.
EARLY_ARCH = 90


class Problem(Exception):
    """A reason to fail, in words for people."""
