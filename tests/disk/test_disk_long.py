"""What tests/python/test_disk_cache.py does, in the numbers that take minutes: `make test-cache`."""

# ruff: noqa: F811 - fixtures come by their names
import shutil

import disk_programs
from test_disk_cache import files, flip, flip_saved, folder, kill_writers, place, run_process, saved  # noqa: F401


def test_changes_between_processes_with_inductor(place):
    answers = run_process("changes", place, "inductor")
    wrong = {name: answer for name, answer in answers.items() if answer[0] != answer[1] or not answer[2]}
    assert not wrong, wrong


def test_a_thousand_random_flips(folder):
    flip(folder, 1000)


def test_a_thousand_flips_in_a_file_for_deployment(saved, tmp_path):
    flip_saved((saved / "function").read_bytes(), tmp_path / "file", 1000)


def test_a_damaged_file_is_compiled_anew(place, tmp_path):
    shutil.copytree(place, tmp_path / "place")
    for file in files(tmp_path / "place" / "stator"):
        file.write_bytes(file.read_bytes()[:-9])
    answer = run_process("keep", tmp_path / "place")
    assert answer["programs"] == {name: [True, 0, 1] for name in disk_programs.programs()}
    assert run_process("start", tmp_path / "place")["programs"] == {name: [True, 1, 0] for name in answer["programs"]}


def test_a_thousand_writers_that_are_killed(tmp_path):
    kill_writers(tmp_path / "new", 1000)
