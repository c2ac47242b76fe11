"""Tests run strictly: where Stator is wrong it raises, and does not fall back to eager."""

import os

os.environ.setdefault("STATOR_STRICT", "1")
os.environ.setdefault("STATOR_CACHE", "0")  # what one run kept is nothing that another should depend on

import pytest  # noqa: E402
import torch  # noqa: E402

import stator  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite the expectations of tests/capture/")


@pytest.fixture(autouse=True)
def fresh_state():
    """Each test starts with nothing captured, the same random numbers, and the settings that the process started with."""
    settings = stator.config.get_config_copy()
    torch.manual_seed(0)
    yield
    stator.set_stance("default")
    stator.config.load_config(settings)
    stator.reset()
