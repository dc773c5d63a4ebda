#!/usr/bin/env python3
"""Builds the Python host of python/ with nanobind and runs its programs.

nanobind and cloudpickle come from a virtual environment below the build directory, into which pip installs them, or
from this interpreter. Without both the test is skipped (exit code 77) with the reason.
Usage: python_host_test.py COMPILER SOURCE_DIR BUILD_DIR
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SKIPPED = 77
PACKAGES = ["nanobind>=3.1,<4", "cloudpickle>=3"]
FIND = "import nanobind, cloudpickle, os; print(os.path.dirname(nanobind.__file__))"


def output_of(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def python_with_packages(directory):
    """An interpreter that imports the packages, and the directory of nanobind. Otherwise the reason."""
    environment = directory / "venv"
    python = environment / "bin" / "python"
    for candidate in (python, Path(sys.executable)):
        if candidate.exists():
            found = output_of(candidate, "-c", FIND)
            if found.returncode == 0:
                return candidate, found.stdout.strip(), ""
    made = output_of(sys.executable, "-m", "venv", "--clear", environment, timeout=120)
    if made.returncode == 0:
        made = output_of(python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", *PACKAGES,
                         timeout=120)
    if made.returncode == 0:
        found = output_of(python, "-c", FIND)
        return python, found.stdout.strip(), "" if found.returncode == 0 else found.stdout
    return None, "", made.stdout


def build(compiler, source, build_dir, directory, python, nanobind):
    module = directory / ("mobula_host" + sysconfig.get_config_var("EXT_SUFFIX"))
    sources = [source / "tests/dynamic/python" / name for name in ("binding.cc", "neutral_values.cc")]
    library = build_dir / "lib/libmobula.so"
    flags = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing",
             "-I", sysconfig.get_paths()["include"], "-I", f"{nanobind}/include"]
    backend = directory / "nanobind.o"
    if not backend.exists():
        subprocess.run([*compiler, *flags, "-w", "-DNDEBUG", "-I", f"{nanobind}/ext/robin_map/include", "-c",
                        f"{nanobind}/src/nb_combined.cpp", "-o", backend], check=True)
    headers = [*(source / "include").rglob("*.h"), *(source / "tests/dynamic/python").glob("*.h")]
    newest = max(path.stat().st_mtime for path in [*sources, library, *headers])
    if not module.exists() or module.stat().st_mtime < newest:
        subprocess.run([*compiler, *flags, "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-isystem",
                        f"{nanobind}/include", "-I", source / "include", "-shared", *sources, backend, "-o", module,
                        "-L", library.parent, "-lmobula", f"-Wl,-rpath,{library.parent}", "-pthread"], check=True)
    return module


def run_program(python, program, environment, *arguments):
    """The output of a program, which has a line per check."""
    ran = subprocess.run([python, program, program.parent / "executor.py", *arguments], env=environment,
                         stdout=subprocess.PIPE, text=True, timeout=100)
    print(ran.stdout)
    assert ran.returncode == 0, f"{program.name} ended with {ran.returncode}"
    assert ran.stdout.count("check_") == program.read_text().count("\ndef check_")
    return ran.stdout


def main():
    compiler, source, build_dir = sys.argv[1].split(), Path(sys.argv[2]), Path(sys.argv[3])
    directory = build_dir / "tests/dynamic/python_host"
    directory.mkdir(parents=True, exist_ok=True)
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        print("skipped: this Python has no headers (Python.h); install python3-dev")
        return SKIPPED
    python, nanobind, reason = python_with_packages(directory)
    if python is None or reason:
        print(f"skipped: nanobind and cloudpickle are neither installed nor on PyPI: {reason.strip()}")
        return SKIPPED
    build(compiler, source, build_dir, directory, python, nanobind)
    programs = source / "tests/dynamic/python"
    with tempfile.TemporaryDirectory(prefix="mobula-python-") as state:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        environment |= {"PYTHONPATH": f"{directory}:{programs}", "PYTHONDONTWRITEBYTECODE": "1",
                        "MOBULA_STATE_DIR": state}
        out = run_program(python, programs / "programs.py", environment)
        assert "exit functions ran" in out
        mobula = build_dir / "bin/mobula"
        subprocess.run([mobula, "start", "--head", "--num-cpus", "2", "--port", "0"], env=environment, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        try:
            run_program(python, programs / "peers.py", environment, build_dir / "bin/cpp_peer")
        finally:
            subprocess.run([mobula, "stop"], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
