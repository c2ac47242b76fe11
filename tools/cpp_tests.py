"""Runs the C++ unit tests of a build folder: tools/cpp_tests.py build/release [--gtest_filter=...]."""

import importlib.util
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    import torch  # noqa: F401  (loads the libraries that the rooms link against, as a user's program does)

    spec = importlib.util.spec_from_file_location("stator_cpp_tests", folder / "stator_cpp_tests.so")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    return tests.run(["stator_cpp_tests", *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
