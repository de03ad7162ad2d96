"""Tests of scripts/check-kernels.

    PYTHONPATH=scripts python3 -B -m unittest kernelcheck.tests
"""

import unittest

from . import ARCHS, Problem, budgets, code, compiled, resources

REPORT = """
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 24 bytes cumulative stack size, 1280 bytes smem
ptxas info    : Function properties for helper
    64 bytes stack frame, 64 bytes spill stores, 64 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_120'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 33 registers
"""
NUMBERS = {"registers": 33, "shared": 0, "spill": 0, "stack": 0}


def kernel(*lines):
    """A kernel of these instructions and labels."""
    text = [".text.k:"]
    text += [line if line.endswith(":") else f"        /*0010*/   {line} ;" for line in lines]
    return code.kernels("\n".join(text))[0]


class Resources(unittest.TestCase):
    def test_reads_a_report_of_two_architectures(self):
        first = {"registers": 40, "shared": 1280, "spill": 32, "stack": 24}
        want = {("80", "first"): first, ("120", "first"): NUMBERS}
        self.assertEqual(resources.resources(REPORT), want)


class Ptx(unittest.TestCase):
    def test_modules_are_compiled_from_the_ptx_of_a_build(self):
        def of(module, archs):
            return [compiled.ptx_of(module, arch, archs) for arch in archs]

        self.assertEqual(of("msm/tree", ARCHS), ["80", "80", "90", "100", "100"])
        self.assertEqual(of("check/points", ARCHS), ["80", "80", "90", "90", "90"])
        self.assertEqual(of("msm/sort", ARCHS), list(ARCHS))
        self.assertEqual(of("msm/tree", ["86", "120"]), ["86", "120"])


class Waits(unittest.TestCase):
    def test_accepts_a_wait_before_memory(self):
        right = kernel("LDC R1, c[0x0][0x28]", "STS [R0], R1", "ACQBULK", "LDG.E R0, [R2]", "EXIT")
        self.assertTrue(right.waits())
        self.assertIsNone(right.wait_problem())

    def test_refuses_memory_branches_and_conditions_before_a_wait(self):
        for line, why in [
            ("LDG.E.64 R0, desc[UR4][R2.64]", "touches memory"),
            ("@P0 STG.E [R2.64], R0", "touches memory"),
            ("RED.E.ADD [R2.64], R0", "touches memory"),
            ("ATOMG.E.ADD PT, R0, [R2], R4", "touches memory"),
            ("LD.E R0, [R2.64]", "touches memory"),
            ("UBLKCP [UR4], [UR6], UR8", "touches memory"),
            ("@!P0 EXIT", "may skip"),
            ("@P1 BRA `(.L_x_0)", "may skip"),
            ("CALL.REL.NOINC `($k$helper)", "may skip"),
        ]:
            wrong = kernel("MOV R1, R2", line, ".L_x_0:", "ACQBULK", "EXIT")
            self.assertIn(why, wrong.wait_problem(), line)
        self.assertIn("condition", kernel("@P0 ACQBULK", "EXIT").wait_problem())


class Counts(unittest.TestCase):
    def test_loops_are_found_and_calls_count_each_time(self):
        k = kernel(
            "IMAD.WIDE.U32 R0, R1, R2, R4",
            ".L_x_0:",
            "IMAD.WIDE.U32.X R0, R1, R2, R4",
            "CALL.REL.NOINC `($k$helper)",
            "CALL.REL.NOINC `($k$helper)",
            "@P2 BRA `(.L_x_2)",
            ".L_x_1:",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
            # Moved out of line, but part of the loop.
            ".L_x_2:",
            "IADD3 R0, R0, R1, RZ",
            "BRA `(.L_x_1)",
            ".L_x_3:",
            "BRA `(.L_x_3)",
            "$k$helper:",
            "IMAD.WIDE.U32 R0, R1, R2, R4",
            "IADD3 R0, R0, R1, RZ",
            "RET.REL.NODEC R2 `(k)",
        )
        self.assertEqual(k.loop_cost(), (1 + 2, 6 + 2 * 2))
        # The endless loop at the end is never reached.
        self.assertEqual(k.whole_cost(), (2 + 2, 7 + 2 * 2))

    def test_calls_of_local_labels_are_jumps(self):
        k = kernel(".L_x_0:", "IMAD.WIDE R0, R1, R2, R4", "@P0 CALL.REL.NOINC `(.L_x_0)", "EXIT")
        self.assertEqual(k.loop_cost(), (1, 1))

    def test_code_that_cannot_be_followed_is_a_problem(self):
        for lines in [("IMAD.WIDE R0, R1, R2, R4", "EXIT"), (".L_x_0:", "BRX R2 -0x10", "EXIT")]:
            with self.assertRaises(Problem):
                kernel(*lines).loop_cost()


class Budgets(unittest.TestCase):
    TABLE = """
# Why.
k.all = { registers = 40, early = true }
k.sm_80_86 = { registers = 48, spill = 8 }
"""

    def problems(self, **by_arch):
        found = {arch.removeprefix("sm_"): NUMBERS | more for arch, more in by_arch.items()}
        return list(budgets.problems(budgets.read_table(self.TABLE), {"k": found}))

    def test_each_architecture_has_its_numbers(self):
        self.assertEqual(self.problems(sm_90={"registers": 40}, sm_86={"spill": 8}), [])
        self.assertIn("registers 41, budget 40", self.problems(sm_90={"registers": 41})[0])
        self.assertIn("spill 12, budget 8", self.problems(sm_86={"spill": 12})[0])
        self.assertIn("spill 8, budget 0", self.problems(sm_100={"spill": 8})[0])
        self.assertIn("shared 4, budget 0", self.problems(sm_90={"shared": 4})[0])
        self.assertIn("wide 1, budget 0", self.problems(sm_90={"wide": 1})[0])

    def test_the_table_must_name_the_kernels_that_wait(self):
        self.assertEqual(self.problems(sm_90={"early": True}), [])
        self.assertIn("does not wait", self.problems(sm_90={"early": False})[0])

    def test_names_must_match(self):
        table = budgets.read_table(self.TABLE)
        self.assertIn("not in", next(budgets.problems(table, {"k": {}, "new": {"90": NUMBERS}})))
        self.assertIn("no such kernel", next(budgets.problems(table, {})))

    def test_refuses_unknown_words(self):
        for row in ["k.all = { register = 4 }", "k.sm_81 = { spill = 4 }", "[k]\nregisters = 4"]:
            with self.assertRaises(Problem):
                budgets.read_table(row)

    def test_a_table_is_written_as_it_is_read(self):
        found = {"90": {"registers": 37, "early": True}, "120": {"registers": 41, "spill": 4}}
        text = budgets.written(self.TABLE, {"m/n": ["k"]}, {"k": found})
        lines = text.removeprefix(budgets.HEADER).splitlines()
        self.assertEqual(
            lines,
            [
                "",
                "# m/n",
                "# Why.",
                "k.all = { registers = 40, early = true }",
                # Not measured, so it is kept.
                "k.sm_80_86 = { registers = 48, spill = 8 }",
                "k.sm_120 = { registers = 48, spill = 4 }",
            ],
        )
        self.assertEqual(budgets.written(text, {"m/n": ["k"]}, {"k": found}), text)


if __name__ == "__main__":
    unittest.main()
