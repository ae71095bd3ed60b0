"""The native kernels as other compilers build them: under sanitizers, for plain x86-64, for another processor."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from afbs.nn import ConvPoolReLU
from layers import coarse, gradients, three_layers
from lenet5 import COLOUR, GREY, batch, distance, network, reference

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
AVX512 = ("-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma")


@dataclass(frozen=True)
class Build:
    compiler: str
    flags: tuple[str, ...]
    runner: tuple[str, ...] = ()
    processor: str = ""
    packages: str = ""

    def missing(self) -> str:
        """What this build needs and is not here."""
        programs = [name for name in (self.compiler, *self.runner) if not shutil.which(name)]
        if programs:
            return f"{' and '.join(programs)} (Debian: apt-get install {self.packages or self.compiler})"
        flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
        return "" if self.processor in flags else f"a processor with {self.processor}"


BUILDS = {
    "sanitized": Build("gcc", SANITIZED),
    "sanitized avx2": Build("gcc", (*SANITIZED, "-mavx2", "-mfma"), processor="avx2"),
    "sanitized avx512": Build("gcc", (*SANITIZED, *AVX512), processor="avx512bw"),
    "plain": Build("gcc", ("-O3", "-fno-predictive-commoning")),
    "plain with little effort": Build("gcc", ("-O1",)),
    "clang": Build("clang", ("-O3",)),
    "aarch64": Build(
        "aarch64-linux-gnu-gcc", ("-O3", "-static"), ("qemu-aarch64",), packages="gcc-aarch64-linux-gnu qemu-user"
    ),
}


@pytest.fixture(scope="module", params=BUILDS)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs `native_driver.c` with the kernels of one build."""
    build = BUILDS[request.param]
    if build.missing():
        pytest.skip(f"this needs {build.missing()}")
    program = tmp_path_factory.mktemp("driver") / "driver"
    sources = [str(ROOT / "native/kernels.c"), str(ROOT / "tests/native_driver.c")]
    common = ["-std=gnu11", "-Wno-psabi", f"-I{ROOT / 'native'}", "-DAFBS_TABLE=afbs_here"]
    subprocess.run([build.compiler, *build.flags, *common, *sources, "-lm", "-o", str(program)], check=True)
    return [*build.runner, str(program)]


def answer(driver: list[str], *blocks: list[int] | Tensor) -> Tensor:
    """What the driver writes, as floats."""
    sent = [
        block.contiguous().numpy().tobytes() if isinstance(block, Tensor) else np.array(block, np.int32).tobytes()
        for block in blocks
    ]
    ended = subprocess.run(driver, input=b"".join(sent), capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[:3000]
    return torch.from_numpy(np.frombuffer(ended.stdout, np.float32).copy())


@pytest.mark.parametrize("shape", [COLOUR, GREY, (1, 12, 12), (2, 33, 47), (5, 14, 40)])
def test_lenet5_is_right(driver: list[str], shape: tuple[int, ...]) -> None:
    for classes, n in [(2, 1), (10, 5), (10, 33), (100, 19), (3, 64)]:
        x, y = batch(shape, classes, n, seed=n)
        model = network(shape, classes, seed=n)
        head = [0, *shape, 2 if min(shape[1:]) < 32 else 0, classes, n, len(model.vector)]
        found = answer(driver, head, model.vector, x, y, torch.randperm(n))
        gradient, scores = torch.split(found, [len(model.vector), n * classes])
        assert distance(gradient, reference(model, x, y)) < 1e-6
        with torch.no_grad():
            torch.testing.assert_close(scores.view(n, classes), model.module(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("margin", [0, 1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_the_layer_is_right(driver: list[str], kernel: int, margin: int) -> None:
    rng = np.random.default_rng(kernel + margin)
    for turn in range(25):
        sizes = (4, 20, 36) if turn % 2 else (7, 40, 90)
        n, channels, outputs = (int(rng.integers(1, most)) for most in sizes)
        height, width = (int(side) for side in rng.integers(kernel + 1, 24, 2))
        torch.manual_seed(0)
        layer = ConvPoolReLU(channels, outputs, kernel, padding=margin)
        coarse(layer)
        plain = three_layers(layer).double()
        x = torch.randn(n, channels, height, width).mul(4).round() / 4
        expected = plain(x.double()).detach()
        weights = torch.randn(expected.shape)
        head = [1, channels, height, width, margin, kernel, outputs, n]
        assert layer.bias is not None
        found = answer(driver, head, x, layer.weight.detach(), layer.bias.detach(), weights)
        truths = [expected, *gradients(plain, x.double(), weights.double())]
        parts = torch.split(found, [truth.numel() for truth in truths])
        assert torch.equal(parts[0].double(), expected.flatten())
        for ours, truth in zip(parts, truths, strict=True):
            assert (ours.double() - truth.flatten()).norm() <= 2e-6 * truth.norm()


def test_numbers_that_are_none_break_no_bounds(driver: list[str]) -> None:
    torch.manual_seed(0)
    for channels, outputs, kernel in ((2, 7, 3), (16, 32, 3), (16, 40, 5)):
        layer, images = ConvPoolReLU(channels, outputs, kernel, padding=1), torch.randn(3, channels, 9, 10)
        images[1, 0, 3, 3], images[2, 0, 0, 0] = float("nan"), float("inf")
        assert layer.bias is not None
        weights = torch.randn(three_layers(layer)(images).shape)
        head = [1, channels, 9, 10, 1, kernel, outputs, 3]
        assert answer(driver, head, images, layer.weight.detach(), layer.bias.detach(), weights).isnan().any()
    for shape in (COLOUR, GREY, (2, 33, 47)):
        x, y = batch(shape, 10, 5)
        x[1, 0, 3, 3], x[2, 0, 0, 0] = float("nan"), float("inf")
        model = network(shape, 10)
        model.vector[::5000] = float("inf")
        head = [0, *shape, 2 if min(shape[1:]) < 32 else 0, 10, 5, len(model.vector)]
        assert answer(driver, head, model.vector, x, y, torch.arange(5)).isnan().any()


def wheel(folder: Path, path: str) -> zipfile.ZipFile:
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (source / "native").mkdir()
    for file in [*(ROOT / "native").glob("*.[ch]"), ROOT / "native/CMakeLists.txt"]:
        shutil.copy(file, source / "native")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True)
    (found,) = folder.glob("*.whl")
    assert found.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")
    return zipfile.ZipFile(found)


def test_without_a_compiler_the_package_is_built_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    names = wheel(tmp_path, str(tmp_path / "bin")).namelist()
    assert "afbs/native/library.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_with_a_compiler_the_wheel_holds_one_library_that_shows_only_its_own_names(tmp_path: Path) -> None:
    archive = wheel(tmp_path, os.environ["PATH"])
    (library,) = [name for name in archive.namelist() if name.endswith(".so")]
    file = archive.extract(library, tmp_path)
    listed = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in listed.splitlines()] == ["afbs_interface", "afbs_level"]
    needed = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    assert "torch" not in needed
    assert "python" not in needed
