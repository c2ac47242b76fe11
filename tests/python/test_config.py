"""stator.config: types, names, environment, patches."""

import os
import pickle
import subprocess
import sys
import types
import unittest

import pytest
import torch

import stator
from stator import config


def run(code, **env):
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr


def test_is_a_module():
    import stator.config as imported

    assert imported is stator.config
    assert isinstance(config, types.ModuleType)


def test_defaults():
    assert config.recompile_limit == 8
    assert config.accumulated_recompile_limit == 256
    assert config.automatic_dynamic_shapes is True
    assert config.strict is True  # the tests' own setting
    assert config.repro_after is None


def test_unknown_name_names_the_nearest():
    with pytest.raises(AttributeError, match="did you mean 'recompile_limit'"):
        config.recompile_limt
    with pytest.raises(AttributeError, match="did you mean 'suppress_errors'"):
        config.supress_errors = True
    with pytest.raises(AttributeError, match="no entry 'xyzzy'"):
        config.patch(xyzzy=1)
    assert not hasattr(config, "xyzzy")


@pytest.mark.parametrize(
    "name, value",
    [
        ("recompile_limit", "8"),
        ("recompile_limit", 8.0),
        ("recompile_limit", True),
        ("recompile_limit", None),
        ("verbose", 1),
        ("verbose", "yes"),
        ("trace_limit_seconds", "1"),
        ("repro_after", 3),
    ],
)
def test_wrong_type(name, value):
    before = getattr(config, name)
    with pytest.raises(TypeError, match=name):
        setattr(config, name, value)
    with pytest.raises(TypeError, match=name):
        config.patch({name: value})
    assert getattr(config, name) == before


@pytest.mark.parametrize(
    "name, value",
    [
        ("recompile_limit", -1),
        ("repro_after", "dynmo"),
        ("break_every", "often"),
        ("repro_level", 9),
    ],
)
def test_wrong_value(name, value):
    with pytest.raises(ValueError, match=name):
        setattr(config, name, value)


def test_values_that_fit():
    config.trace_limit_seconds = 3
    assert config.trace_limit_seconds == 3.0 and type(config.trace_limit_seconds) is float
    config.break_every = 7
    assert config.break_every == "7"
    config.break_every = "random:12"
    config.repro_after = "aot"
    config.repro_after = None


def test_del_restores_the_default():
    config.recompile_limit = 3
    del config.recompile_limit
    assert config.recompile_limit == 8


def test_patch_as_context():
    with config.patch(recompile_limit=2, verbose=True):
        assert config.recompile_limit == 2 and config.verbose is True
        with config.patch({"recompile_limit": 1}):
            assert config.recompile_limit == 1
        with config.patch("recompile_limit", 5):
            assert config.recompile_limit == 5
        assert config.recompile_limit == 2
    assert config.recompile_limit == 8 and config.verbose is False


def test_patch_restores_after_an_error():
    with pytest.raises(KeyError), config.patch(recompile_limit=2):
        raise KeyError
    assert config.recompile_limit == 8


def test_patch_is_reentrant():
    patch = config.patch(recompile_limit=2)
    with patch:
        config.recompile_limit = 3
        with patch:
            assert config.recompile_limit == 2
        assert config.recompile_limit == 3
    assert config.recompile_limit == 8


def test_patch_as_decorator():
    @config.patch(recompile_limit=4)
    def depth(n):
        return [config.recompile_limit] + (depth(n - 1) if n else [])

    assert depth(2) == [4, 4, 4]
    assert depth.__name__ == "depth"
    assert config.recompile_limit == 8


def test_patch_decorates_unittest_classes():
    seen = []

    @config.patch(recompile_limit=4)
    class Case(unittest.TestCase):
        def test_it(self):
            seen.append(config.recompile_limit)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.wasSuccessful() and seen == [4]
    assert config.recompile_limit == 8
    with pytest.raises(TypeError):
        config.patch(recompile_limit=4)(type("Plain", (), {}))


def test_patch_of_nothing():
    with pytest.raises(TypeError):
        config.patch()
    with pytest.raises(TypeError):
        config.patch(3)


def test_aliases():
    config.cache_size_limit = 3
    assert config.recompile_limit == 3
    with config.patch(cache_size_limit=5):
        assert config.recompile_limit == 5
    assert config.recompile_limit == 3


def test_save_and_load():
    config.recompile_limit = 3
    saved = config.get_config_copy()
    stored = config.save_config()
    config.recompile_limit = 4
    assert saved["recompile_limit"] == 3
    config.load_config(saved)
    assert config.recompile_limit == 3
    config.recompile_limit = 4
    config.load_config(stored)
    assert config.recompile_limit == 3
    assert pickle.loads(stored) == saved


def test_load_sets_nothing_if_anything_is_wrong():
    with pytest.raises(TypeError):
        config.load_config({"recompile_limit": 3, "verbose": "yes"})
    assert config.recompile_limit == 8


def test_describe():
    assert "STATOR_RECOMPILE_LIMIT" in config.describe("recompile_limit")
    text = config.describe()
    assert all(name in text for name in config.get_config_copy())


@pytest.mark.slow
@pytest.mark.parametrize(
    "env, expression, value",
    [
        ({"STATOR_RECOMPILE_LIMIT": "3"}, "recompile_limit", "3"),
        ({"STATOR_STRICT": "0"}, "strict", "False"),
        ({"STATOR_BREAK_EVERY": "random:5"}, "break_every", "'random:5'"),
        ({"STATOR_BREAK_EVERY": ""}, "break_every", "'0'"),
        ({"STATOR_TRACE_LIMIT_SECONDS": "1.5"}, "trace_limit_seconds", "1.5"),
        ({"TORCHDYNAMO_VERBOSE": "1"}, "verbose", "True"),
        ({"TORCH_COMPILE_DISABLE": "1"}, "disable", "True"),
        ({"STATOR_REPRO_AFTER": "none"}, "repro_after", "None"),
    ],
)
def test_environment(env, expression, value):
    code, out, err = run(f"import stator; print(repr(stator.config.{expression}))", **env)
    assert (code, out) == (0, value), err


@pytest.mark.slow
def test_environment_that_does_not_fit():
    code, _, err = run("import stator", STATOR_RECOMPILE_LIMIT="many")
    assert code != 0 and "STATOR_RECOMPILE_LIMIT='many'" in err


def test_reaches_the_binary():
    told = []
    before = config._native
    try:
        config._connect(lambda name, value: told.append((name, value)))
        assert ("recompile_limit", 8) in told
        with config.patch(recompile_limit=2):
            pass
        assert told[-2:] == [("recompile_limit", 2), ("recompile_limit", 8)]
    finally:
        config.__dict__["_native"] = before


def test_compiled_code_reads_settings():
    def f(x):
        limit = stator.config.recompile_limit + stator.config.cache_size_limit
        return x * limit if stator.config.verbose else x + limit

    x = torch.ones(2)
    compiled = stator.compile(f, backend="eager", fullgraph=True)
    for changes in ({"verbose": False}, {"recompile_limit": 5}, {"verbose": True}, {"verbose": False}):
        with stator.config.patch(changes):
            assert torch.equal(compiled(x), f(x))
    captures = stator.stats()["captures"]
    assert torch.equal(compiled(x), f(x)) and stator.stats()["captures"] == captures
