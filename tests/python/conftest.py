"""Tests run strictly: where Stator is wrong it raises, and does not fall back to eager."""

import datetime
import os

os.environ.setdefault("STATOR_STRICT", "1")
os.environ.setdefault("STATOR_CACHE", "0")  # what one run kept is nothing that another should depend on

import pytest  # noqa: E402
import torch  # noqa: E402

import stator  # noqa: E402

# `make asan` sets it: its tests are to run in its build and no other.
assert stator._build_info.SANITIZED or "STATOR_TEST_SANITIZED" not in os.environ, stator.__file__


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite the expectations of tests/capture/")


@pytest.fixture(autouse=True)
def fresh_state():
    """Each test starts with nothing captured, the same random numbers, and the settings that the process started
    with."""
    settings = stator.config.get_config_copy()
    torch.manual_seed(0)
    yield
    stator.set_stance("default")
    stator.config.load_config(settings)
    stator.reset()


# The longest files, of which continuous integration runs one half a day (.ci/run sets STATOR_TEST_ROTATE); `make test`
# runs all.
ROTATING = ("test_shapes_opdb.py", "test_debug.py")


def pytest_collection_modifyitems(items):
    if not os.environ.get("STATOR_TEST_ROTATE"):
        return
    today = datetime.date.today().toordinal() % 2
    rotating = [item for item in items if item.path.name in ROTATING]
    for item in rotating[1 - today :: 2]:
        item.add_marker(pytest.mark.skip(reason="the other half runs today"))
