"""What inductor made of graphs for the device is kept on the disk: a second process finds it, and imports neither
inductor nor Triton."""

import pathlib

import kept_programs
import pytest
from checking import needs_cuda

from tests.python import children

pytestmark = needs_cuda
HERE = pathlib.Path(__file__).parent


def run(place, **variables):
    return children.answer_of(HERE / "kept_programs.py", place, **variables)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("kept")
    answer = run(place)
    assert answer["programs"] == {name: [True, 0, 1] for name in kept_programs.PROGRAMS}
    assert answer["reasons"] == {}
    return place


def test_a_second_process_imports_nothing_large(place):
    answer = run(place)
    assert answer["programs"] == {name: [True, 1, 0] for name in kept_programs.PROGRAMS}
    assert answer["modules"] == []


def test_another_setting_is_another_graph(place):
    answer = run(place, TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE="1")
    assert answer["programs"] == {name: [True, 0, 1] for name in kept_programs.PROGRAMS}
