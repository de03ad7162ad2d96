"""Compiles the API of `proto/` to Python when a wheel is built."""

import shutil
from pathlib import Path

import grpc_tools
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledApi(BuildHookInterface):
    """Makes `src/capstan/v1`, which is not in the repository: it would go stale."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile the messages. The client needs no stubs: services have descriptors."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        # An sdist has a copy of the API.
        api = next(path for path in (root / "proto", root.parent / "proto") if path.is_dir())
        output = root / "src"
        shutil.rmtree(output / "capstan/v1", ignore_errors=True)
        files = [str(path) for path in sorted((api / "capstan/v1").glob("*.proto"))]
        options = [f"--proto_path={api}", f"--python_out={output}", f"--pyi_out={output}"]
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        if protoc.main(["protoc", f"--proto_path={well_known}", *options, *files]) != 0:
            raise RuntimeError("protoc failed")
        (output / "capstan/v1/__init__.py").write_text('"""The messages of the API."""\n')
