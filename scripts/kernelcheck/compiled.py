"""Fatbins, reused from a build or compiled here, and the machine code in them."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import KERNELS, ROOT, Problem


def find_tool(name):
    """Searches where src/gpu/build/nvcc.rs does; the tools are in the folder of the compiler."""
    named = os.environ.get("CAPSTAN_NVCC", "").strip()
    homes = [os.environ[home] for home in ("CUDA_HOME", "CUDA_PATH") if home in os.environ]
    places = [pathlib.Path(named).with_name(name)] if named not in ("", "none") else []
    places += [pathlib.Path(home) / "bin" / name for home in homes]
    places += [pathlib.Path(found) for found in [shutil.which(name)] if found]
    places.append(ROOT / ".cuda/nvidia/cu13/bin" / name)
    for place in places:
        if place.is_file():
            return str(place)
    hint = "" if name == "nvcc" else " --tools"
    raise Problem(f"no {name}: run scripts/install-nvcc{hint}, or set CAPSTAN_NVCC or CUDA_HOME")


def run(command, **options):
    """Returns the command's stdout and stderr; if it fails, raises a Problem with them."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Problem(f"{pathlib.Path(command[0]).name} failed\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def sources():
    """Maps the module name of every kernel file to its path."""
    files = [file for file in sorted(KERNELS.rglob("*.cu")) if "host" not in file.parts]
    return {str(file.relative_to(KERNELS).with_suffix("")): file for file in files}


def built_module(built, module):
    """A build's fatbin and ptxas report of a module; None if the build did not compile it."""
    name = module.replace("/", "-")
    fatbins = built.glob(f"{name}-*.fatbin") if built else []
    # Another module's name may start with this one; a hash contains no dash.
    fatbins = [f for f in fatbins if "-" not in f.stem[len(name) + 1 :]]
    if len(fatbins) != 1 or not fatbins[0].with_suffix(".ptxas").is_file():
        return None
    return fatbins[0], fatbins[0].with_suffix(".ptxas").read_text()


def constant(name):
    """A list of src/gpu/build/archs.rs."""
    text = (ROOT / "src/gpu/build/archs.rs").read_text()
    found = re.search(rf"^pub const {name}: [^=]* = (.*?);$", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise Problem(f"src/gpu/build/archs.rs has no {name}")
    return ast.literal_eval(found[1].replace("&", ""))


def ptx_of(module, arch, archs):
    """The architecture whose PTX becomes the machine code of `arch`: see src/gpu/build/archs.rs."""
    groups = constant("SAME_PTX_COLD" if module in constant("COLD") else "SAME_PTX")
    if module not in constant("OWN_PTX"):
        for group in groups:
            if int(arch) in group:
                return next(str(other) for other in group if str(other) in archs)
    return arch


def compile_module(nvcc, archs, module, source, folder):
    """Compiles a module for all `archs`; returns the fatbin and the report of ptxas."""
    fatbin = pathlib.Path(folder) / f"{module.replace('/', '-')}.fatbin"
    command = [nvcc, "--fatbin", "--options-file", "kernels/nvcc.options", "-I", "kernels"]
    command += [
        f"-gencode=arch=compute_{ptx_of(module, arch, archs)},code=sm_{arch}" for arch in archs
    ]
    command += ["-Xptxas", "-v", "-o", str(fatbin), str(source)]
    try:
        return fatbin, run(command, cwd=ROOT)
    except Problem as problem:
        raise Problem(f"{module}: {problem}") from None


class Images:
    """The machine code in a fatbin, by architecture."""

    def __init__(self, cuobjdump, nvdisasm, fatbin):
        self.cuobjdump, self.nvdisasm, self.fatbin = cuobjdump, nvdisasm, fatbin

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        command = [self.cuobjdump, "--extract-elf", "all", str(self.fatbin.resolve())]
        run(command, cwd=self.folder.name)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def disassemble(self, arch):
        """The output of nvdisasm for one architecture."""
        cubins = list(pathlib.Path(self.folder.name).glob(f"*.sm_{arch}.cubin"))
        if len(cubins) != 1:
            raise Problem(f"{self.fatbin.name}: {len(cubins)} images for sm_{arch}, not 1")
        return run([self.nvdisasm, "--print-code", str(cubins[0])])
