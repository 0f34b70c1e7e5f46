"""The gate finds spills, missing reports, and a ptxas whose report has another form.

If nvcc is installed it also compiles two kernels, one of which needs more numbers than registers, to see how
the real ptxas reports a spill.
"""
import glob
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

GATE = pathlib.Path(__file__).with_name("ptxas_gate.py")
TALK = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN1a6kernelEv' for 'sm_80'
ptxas info    : Function properties for _ZN1a6kernelEv
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes stack, 4096 bytes smem, 380 bytes cmem[0]
"""


def check(folder, talk):
    if talk is not None:
        (folder / "x.cu.o.ptxas").write_text(talk)
    return subprocess.run([sys.executable, GATE, "--check", folder / "x.cu.o", folder / "host.cpp.o"],
                          capture_output=True, text=True)


def test_a_kernel_without_spills_passes_and_is_listed(tmp_path):
    done = check(tmp_path, TALK.format(stack=8, stores=0, loads=0))
    assert done.returncode == 0, done.stdout
    row = next(line.split() for line in done.stdout.splitlines() if "sm_80" in line)
    assert row == ["40", "4096", "8", "0", "sm_80", "a::kernel"]


def test_a_kernel_that_spills_fails_and_is_named(tmp_path):
    for stores, loads in ((4, 0), (0, 12)):
        done = check(tmp_path, TALK.format(stack=8, stores=stores, loads=loads))
        assert done.returncode == 1
        assert f"a::kernel on sm_80: {stores + loads} bytes of registers spill to memory" in done.stdout


def test_a_missing_report_fails(tmp_path):
    done = check(tmp_path, None)
    assert done.returncode == 1 and "x.cu.o.ptxas is missing" in done.stdout


def test_words_that_are_not_understood_fail(tmp_path):
    done = check(tmp_path, "ptxas note: everything is fine\n")
    assert done.returncode == 1 and "no kernel at all" in done.stdout


def launch(folder, script):
    return subprocess.run([sys.executable, GATE, "sh", "-c", script, "-o", folder / "x.cu.o"],
                          capture_output=True, text=True)


def test_the_launcher_keeps_what_ptxas_says_and_passes_on_the_rest(tmp_path):
    talk = TALK.format(stack=0, stores=0, loads=0)
    done = launch(tmp_path, f"printf '%s' \"{talk}\" >&2; echo 'x.cu(3): warning' >&2")
    assert done.returncode == 0 and done.stderr == "x.cu(3): warning\n"
    assert (tmp_path / "x.cu.o.ptxas").read_text() == talk


def test_the_launcher_fails_as_the_compiler_does(tmp_path):
    done = launch(tmp_path, "echo 'x.cu(3): error' >&2; exit 7")
    assert done.returncode == 7 and done.stderr == "x.cu(3): error\n"
    assert not (tmp_path / "x.cu.o.ptxas").exists()


# This kernel has 60 numbers that are all needed at the end. With one block of 512 threads per multiprocessor,
# a thread has 128 registers; with three blocks, it has 40.
KERNEL = """
__global__ void __launch_bounds__(512, BLOCKS) planted(const float* from, float* to) {
  float kept[60];
#pragma unroll
  for (int i = 0; i < 60; ++i) kept[i] = from[i * 512 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 60; ++i) to[i * 512 + threadIdx.x] = kept[59 - i];
}
"""


def find_nvcc():
    """The places where kernels/cuda/toolkit.cmake looks, in its order."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda",
               *sorted(glob.glob(f"{glob.escape(cache)}/hearth/cuda-*"))]
    places = [os.environ.get("CUDACXX"), "nvcc", *(f"{folder}/bin/nvcc" for folder in folders if folder)]
    return next(filter(None, (shutil.which(place) for place in places if place)), None)


@pytest.mark.parametrize("blocks, spills", [(1, False), (3, True)])
def test_a_planted_spill_is_found_in_what_the_compiler_says(tmp_path, blocks, spills):
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc here; docker/install-deps.sh --cuda fetches it")
    (tmp_path / "x.cu").write_text(KERNEL)
    command = [nvcc, "-gencode=arch=compute_89,code=sm_89", "-gencode=arch=compute_90,code=sm_90",
               f"-DBLOCKS={blocks}", "--resource-usage", "-c", tmp_path / "x.cu", "-o", tmp_path / "x.cu.o"]
    built = subprocess.run([sys.executable, GATE, *command], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = check(tmp_path, None)
    assert done.returncode == (1 if spills else 0), done.stdout
    assert f"2 kernels, {2 if spills else 0} problems" in done.stdout
    for arch in ("sm_89", "sm_90"):
        assert (f"planted on {arch}: " in done.stdout) == spills
