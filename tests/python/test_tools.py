"""The project's own tools: the room check has to see what it is there for."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = """
# stator_room(ghost DEPS base) is a comment
stator_room(base)
stator_room(python DEPS base)
stator_room(shapes DEPS base)
stator_room(tensor DEPS base python shapes TORCH)
stator_room(guards DEPS base
  tensor)
stator_room(upper/low DEPS base)
stator_room(upper/high DEPS base upper/low)
"""


def check(tmp_path, files, cmake=CMAKE):
    (tmp_path / "CMakeLists.txt").write_text(cmake)
    for name, text in {"base/python.h": "#include <Python.h>\n", **files}.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, ROOT / "tools" / "check_rooms.py", tmp_path], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_this_project():
    done = subprocess.run([sys.executable, ROOT / "tools" / "check_rooms.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "name, text",
    [
        ("guards/a.cpp", '#include "guards/a.h"\n#include "tensor/b.h"\n#include <vector>\n'),
        ("tensor/a.cpp", "#include <ATen/ATen.h>\n#include <torch/extension.h>\n#include <c10/core/Device.h>\n"),
        ("shapes/a.h", "#include <torch/headeronly/core/ScalarType.h>\n"),
        ("upper/high/a.cpp", '#include "upper/low/a.h"\n'),
        ("python/a.c", '#include "internal/pycore_frame.h"\n#if PY_VERSION_HEX > 1\n#endif\n#include <Python.h>\n'),
    ],
)
def test_allowed(tmp_path, name, text):
    code, out = check(tmp_path, {name: text})
    assert code == 0, out


@pytest.mark.parametrize(
    "name, text, complaint",
    [
        ("base/a.cpp", '#include "guards/a.h"\n', "src/base/a.cpp:1: guards/a.h: base/ may include base, not guards/"),
        ("guards/a.cpp", '\n  # include "python/a.h"\n', "src/guards/a.cpp:2: python/a.h"),
        ("guards/a.cpp", "#include <torch/extension.h>\n", "belong to tensor/ alone"),
        ("guards/a.cpp", "return list->ob_item[0];\n", "src/guards/a.cpp:1: ob_item: CPython's layout"),
        (
            "guards/a.cpp",
            "\nif (code->co_nlocalsplus == 1) return;\n",
            "src/guards/a.cpp:2: co_nlocalsplus: CPython's layout",
        ),
        ("guards/a.cpp", '#include "ATen/ATen.h"\n', "belong to tensor/ alone"),
        ("shapes/a.cpp", "#include <c10/core/ScalarType.h>\n", "belong to tensor/ alone"),
        ("guards/a.cpp", "#if PY_VERSION_HEX >= 0x030c0000\n#endif\n", "python/'s business"),
        ("guards/a.cpp", "#include <internal/pycore_frame.h>\n", "python/'s business"),
        ("guards/a.cpp", "auto* dict = type->tp_dict;\n", "python/ has a name for it"),
        ("guards/a.cpp", "#include <Python.h>\n", "base/python.h"),
        ("guards/a.cpp", '#include "elsewhere/a.h"\n', "elsewhere/a.h: belongs to no room"),
        ("upper/low/a.cpp", '#include "upper/high/a.h"\n', "upper/low/ may include base, upper/low, not upper/high/"),
        ("upper/a.cpp", "", "upper/a.cpp: no stator_room()"),
        ("attic/a.cpp", "", "attic/a.cpp: no stator_room()"),
    ],
)
def test_refused(tmp_path, name, text, complaint):
    code, out = check(tmp_path, {name: text})
    assert code == 1 and complaint in out


def test_order_of_rooms(tmp_path):
    code, out = check(tmp_path, {}, "stator_room(base DEPS python)\nstator_room(python)\n")
    assert code == 1 and "base/ depends on python/" in out


def test_long_comments_go_above_the_code():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import format as formatter
    finally:
        sys.path.pop(0)
    comment = "// " + "word " * 25
    assert formatter.lift_comments(f"  int x = 0;  {comment}\n") == f"  {comment}\n  int x = 0;\n"
    for kept in ("  int x = 0;  // short\n", f"  {comment}\n", f'  auto u = "http://{"x" * 100}";\n'):
        assert formatter.lift_comments(kept) == kept


def test_bytecode_in_wheels(tmp_path):
    """A module is read from the wheel's bytecode, from its source once that has changed; the wheel's record has every
    file."""
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack/__init__.py", "import pack.inner\n")
        archive.writestr("pack/inner.py", "answer = 42\n")
        archive.writestr("pack-1.dist-info/RECORD", "pack/__init__.py,,\npack/inner.py,,\npack-1.dist-info/RECORD,,\n")
    subprocess.run([sys.executable, ROOT / "tools" / "wheel_bytecode.py", wheel], check=True, capture_output=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        assert archive.testzip() is None
        record = archive.read("pack-1.dist-info/RECORD").decode()
        assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(archive.namelist())
        (compiled,) = [name for name in archive.namelist() if "inner" in name and name.endswith(".pyc")]

    def answer():
        code = "import pack.inner as i; print(i.answer, i.__cached__, i.__spec__.loader.get_code('pack.inner').co_filename)"
        run = [sys.executable, "-B", "-v", "-c", code]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True)
        return done.stdout.split(), f"matches {tmp_path / 'pack' / 'inner.py'}" in done.stderr

    assert answer() == (["42", str(tmp_path / compiled), str(tmp_path / "pack/inner.py")], True)
    (tmp_path / "pack/inner.py").write_text("answer = 43\n")
    assert answer() == (["43", str(tmp_path / compiled), str(tmp_path / "pack/inner.py")], False)


def test_long_lines_move_on():
    spec = importlib.util.spec_from_file_location("wrap", ROOT / "tools" / "wrap.py")
    wrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wrap)
    words = "word " * 30
    code = wrap.wrapped(pathlib.Path("a.cpp"), f"  // {words}\n  // and more\n  int a;\n// {'x' * 130}\n")
    assert code.split("\n")[1].startswith("  // word word") and code.split("\n")[1].endswith("and more")
    assert max(map(len, code.split("\n")[:3])) <= 120 and "x" * 130 in code
    text = wrap.wrapped(
        pathlib.Path("a.py"), f'def f():\n    """{words}\n\n    Second."""\n    # {words}\n    return "{words}"\n'
    )
    assert max(map(len, text.split("\n")[:-2])) <= 120 and f'return "{words}"' in text
    assert compile(text, "a.py", "exec") and '\n\n    Second."""' in text
    page = wrap.wrapped(pathlib.Path("a.md"), f"- {words}\n  {words}\n\n| {words} |\n```\n{words}\n```\n")
    assert page.split("\n")[1].startswith("  word") and f"| {words} |" in page and f"```\n{words}\n```" in page
