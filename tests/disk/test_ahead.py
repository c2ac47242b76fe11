"""aot_compile with inductor: what it made is in the file, and a process that loads it neither calls nor imports it."""

import subprocess
import sys
import textwrap

import children

PROGRAM = """
import sys, torch, stator
sys.path.insert(0, {folder!r})
import the_program
x = torch.arange(12.0).reshape({rows}, -1)[:, :2].clone()
with torch.no_grad():
    if {write}:
        stator.mark_dynamic(x, 0)
        ahead = stator.compile(the_program.f, fullgraph=True).aot_compile(((x,), {{}}))
        ahead.save_compiled_function({file!r})
    else:
        stator.config.cache = False
        with open({file!r}, "rb") as file:
            ahead = stator.load_compiled_function(file)
    torch.testing.assert_close(ahead(x), the_program.f(x))
    try:
        ahead(x.double())
    except RuntimeError as error:
        assert "guard check failed" in str(error), error
print(stator.stats()["backend_compilations"], stator.stats()["captures"], "torch._inductor.compile_fx" in sys.modules)
"""


def test_in_another_process(tmp_path):
    (tmp_path / "the_program.py").write_text(
        textwrap.dedent("""
        def f(x):
            return x.sin().sum(1) * x.shape[0] + 1
        """)
    )
    said = []
    for write, rows in ((True, 6), (False, 4)):
        program = PROGRAM.format(folder=str(tmp_path), file=str(tmp_path / "file"), write=write, rows=rows)
        environment = children.environment(STATOR_CACHE_DIR=str(tmp_path / "cache"), STATOR_STRICT="1")
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert run.returncode == 0, run.stderr
        said.append(run.stdout.split())
    assert said == [["1", "1", "True"], ["0", "1", "False"]]
