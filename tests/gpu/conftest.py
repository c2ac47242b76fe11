"""As for the other tests: strict, and each test starts with nothing captured. Without the device every test is
skipped."""

import os
import sys
from pathlib import Path

os.environ.setdefault("STATOR_STRICT", "1")
sys.path[:0] = [str(Path(__file__).parent)]
sys.path.append(str(Path(__file__).resolve().parents[2]))

import checking  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_cuda: means CUDA itself, whatever STATOR_TEST_DEVICE says")


def pytest_collection_modifyitems(items):
    for item in items:
        if not checking.device_is_there():
            item.add_marker(pytest.mark.skip(reason=f"there is no device {checking.DEVICE} here"))
        elif item.get_closest_marker("needs_cuda") and checking.DEVICE.type != "cuda":
            item.add_marker(pytest.mark.skip(reason="is about CUDA itself"))


@pytest.fixture(autouse=True)
def fresh_state():
    if not checking.device_is_there():
        yield
        return
    import stator

    settings = stator.config.get_config_copy()
    stator._core.reset_stats()
    torch.manual_seed(0)
    yield
    stator.set_stance("default")
    stator.config.load_config(settings)
    stator.reset()
    if checking.DEVICE.type == "cuda":
        torch.cuda.synchronize()
