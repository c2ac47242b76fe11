"""What backends make is kept on the disk, and found again: by the right programs, and by no others (docs/CACHE.md).

The first process compiles with inductor; others find what it kept. Files are damaged, writers killed and folders made
unusable in this process, on what the first one kept.
"""

import logging
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch

import children
import disk_programs
import stator
from stator import _core, _disk

HERE = pathlib.Path(__file__).parent
HEADER = 120  # bytes, of a file


def run_process(task, place, *options, **variables):
    return children.answer_of(HERE / "disk_programs.py", place, task, *options, **variables)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that a first process has filled."""
    place = tmp_path_factory.mktemp("kept")
    answer = run_process("keep", place)
    assert answer["programs"] == {name: [True, 0, 1] for name in disk_programs.programs()}
    assert len(list((place / "stator").glob("*.stator"))) == len(answer["programs"])
    return place


@pytest.fixture
def folder(place, tmp_path):
    """A copy of it, as this process's."""
    shutil.copytree(place / "stator", tmp_path / "copy")
    _disk._told = False
    with stator.config.patch(cache=True, cache_dir=str(tmp_path / "copy")):
        yield tmp_path / "copy"


def files(folder):
    return sorted(folder.glob("*.stator"))


# ---- the second process


def test_a_second_process_imports_nothing_large(place):
    answer = run_process("start", place)
    assert answer["programs"] == {name: [True, 1, 0] for name in disk_programs.programs()}
    assert answer["modules"] == []


def test_changes_between_processes(place):
    answers = run_process("changes", place)
    assert len(answers) >= 60 and sum(expected == "miss" for expected, _, _ in answers.values()) >= 40
    wrong = {name: answer for name, answer in answers.items() if answer[0] != answer[1] or not answer[2]}
    assert not wrong, wrong


# ---- files for deployment


@pytest.fixture(scope="module")
def saved(place):
    """A folder of files that stator.save wrote, by a process that found everything in the cache."""
    (place / "saved").mkdir()
    answer = run_process("save", place, str(place / "saved"))
    assert answer["programs"] == {name: 1 for name in disk_programs.programs()} and answer["modules"] == []
    grown = run_process("save_grown", place, str(place / "saved"), STATOR_CACHE_DIR=str(place / "stator-grown"))
    assert grown == [True, 1, 1]  # learned: one capture, one graph
    return place / "saved"


def test_a_process_from_files_alone(place, saved):
    answer = run_process("load", place, str(saved), STATOR_CACHE="0")
    assert answer["programs"] == {name: [True, 1, 0] for name in disk_programs.programs()}
    assert answer["modules"] == []


def test_a_file_knows_what_is_dynamic_and_what_it_has_not(place, saved):
    equal, captures, modules, raised = run_process("load_grown", place, str(saved), STATOR_CACHE="0")
    assert (equal, captures, modules) == (True, 1, [])
    assert "has no graph for this call of grows (" in raised and "disk_programs.py:" in raised
    assert "It has graphs of\n  grows (disk_programs.py:" in raised


def flip_saved(good, path, count):
    chance = random.Random(1)
    for position in [*range(HEADER), *(chance.randrange(len(good)) for _ in range(count))]:
        bad = bytearray(good)
        bad[position] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(stator.exc.PackageError):
            stator.load(disk_programs.function, path)


def test_files_that_are_damaged_are_an_error(saved, tmp_path):
    good = (saved / "function").read_bytes()
    path = tmp_path / "file"
    flip_saved(good, path, 100)
    for length in (0, 50, HEADER, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(stator.exc.PackageError):
            stator.load(disk_programs.function, path)
    path.write_bytes(files(saved.parent / "stator")[0].read_bytes())
    with pytest.raises(stator.exc.PackageError, match="of something else"):
        stator.load(disk_programs.function, path)
    with pytest.raises(FileNotFoundError):
        stator.load(disk_programs.function, tmp_path / "none")


def test_files_of_other_versions(saved, monkeypatch):
    monkeypatch.setattr(_disk, "versions", lambda: "another")
    with pytest.raises(stator.exc.PackageError, match="other versions"):
        stator.load(disk_programs.function, saved / "function", "error")
    _disk._told = False
    loaded, told = caught(lambda: stator.load(disk_programs.function, saved / "function"))
    assert callable(loaded) and len(told) == 1 and "other versions" in told[0]


def test_wrong_uses_of_save_and_load(saved, tmp_path):
    compiled = stator.compile(disk_programs.function, backend="inductor")
    with pytest.raises(RuntimeError, match="nothing to save"):
        stator.save(compiled, tmp_path / "file")
    with pytest.raises(TypeError, match="save takes what stator.compile returned"):
        stator.save(disk_programs.function, tmp_path / "file")
    eager = stator.compile(disk_programs.function, backend="eager")
    eager(*disk_programs.tensors((4, 6), (4, 6)))
    with stator.config.patch(cache=True), pytest.raises(RuntimeError, match="not kept"):
        stator.save(eager, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    with pytest.raises(ValueError, match="on_miss is one of 'capture', 'error', 'eager'"):
        stator.load(disk_programs.function, saved / "function", "explode")
    with pytest.raises(OSError, match="nowhere"), stator.config.patch(cache=True):
        stator.save(eager, tmp_path / "nowhere" / "file", partial=True)


# ---- the command line


def command(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "stator", "cache", "--folder", str(folder), *arguments], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_line(place, tmp_path):
    shutil.copytree(place / "stator-grown", tmp_path / "copy")
    names = [file.stem for file in files(tmp_path / "copy")]
    status, text = command(tmp_path / "copy", "ls")
    assert status == 0 and len(text.splitlines()) == len(names) and all(name[:12] in text for name in names)
    assert "grows (disk_programs.py:" in text and "dynamic: L['n']: the number, L['x']: dim 0" in text
    status, text = command(tmp_path / "copy", "info")
    assert status == 0 and f"files     {len(names)}" in text
    status, text = command(tmp_path / "copy", "rm", names[0][:20], names[1])
    assert status == 0 and "removed 2 files" in text
    assert [file.stem for file in files(tmp_path / "copy")] == names[2:]


def test_wrong_uses_of_the_command_line(tmp_path, capsys):
    from stator import commands

    def refused(*arguments):
        with stator.config.patch(cache_dir=None):
            assert commands.main(["cache", "--folder", str(tmp_path), *arguments]) == 2
        return capsys.readouterr().err.strip()

    assert refused("rm") == "stator: rm needs keys, --unused DAYS, --limit MIB or --all"
    assert refused("rm", "77") == "stator: 77: no file begins so"
    for number in (1, 2):
        _core.disk_write(str(tmp_path), key_of(number), [b"x"], 1 << 30)
    assert refused("info", "00") == "stator: 00: 2 files begin so"


def test_removing_by_age_and_size(tmp_path, capsys):
    from stator import commands

    def remove(*arguments):
        with stator.config.patch(cache_dir=None):
            assert commands.main(["cache", "--folder", str(tmp_path), "rm", *arguments]) == 0
        return capsys.readouterr().out.strip()

    for number in range(6):
        _core.disk_write(str(tmp_path), key_of(number), [bytes(100_000)], 1 << 30)
        os.utime(tmp_path / f"{key_of(number)}.stator", (time.time() - 86400 * number,) * 2)
    assert remove("--unused", "3.5") == "removed 2 files, 196 KiB"
    assert remove("--limit", "0.2") == "removed 2 files, 196 KiB"
    assert [int(file.stem, 16) for file in files(tmp_path)] == [0, 1]
    assert remove("--all") == "removed 2 files, 196 KiB" and not files(tmp_path)


# ---- damage


def caught(action):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer = action()
    return answer, [str(warning.message) for warning in seen]


def load(file):
    return _disk.load(file.stem)


def test_what_is_whole_loads(folder):
    for file in files(folder):
        answer, told = caught(lambda file=file: load(file))
        assert callable(answer[0]) and not told


def test_kernels_from_files_are_counted(folder):
    """inductor's metrics go on as with its own caches."""
    from torch._inductor import metrics

    before = metrics.generated_kernel_count
    assert all(load(file) is not None for file in files(folder))
    assert metrics.generated_kernel_count >= before + len(files(folder))


def test_every_byte_of_the_header_counts(folder):
    file = files(folder)[0]
    good = file.read_bytes()
    for position in range(HEADER):
        for change in (1, 0x80):
            bad = bytearray(good)
            bad[position] ^= change
            file.write_bytes(bad)
            assert isinstance(_core.disk_read(str(folder), file.stem), str), position
    file.write_bytes(good)
    assert isinstance(_core.disk_read(str(folder), file.stem), list)


def flip(folder, count):
    chance = random.Random(0)
    for _ in range(count):
        file = chance.choice(files(folder))
        good = file.read_bytes()
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        file.write_bytes(bad)
        assert isinstance(_core.disk_read(str(folder), file.stem), str)
        file.write_bytes(good)


def test_random_flips(folder):
    flip(folder, 200)


def test_files_that_are_cut_off(folder):
    file = files(folder)[0]
    good = file.read_bytes()
    lengths = [*range(HEADER + 16), *range(HEADER + 16, len(good), max(1, len(good) // 100)), len(good) - 1]
    for length in lengths:
        file.write_bytes(good[:length])
        assert isinstance(_core.disk_read(str(folder), file.stem), str), length
    file.write_bytes(good + b"\0")
    assert isinstance(_core.disk_read(str(folder), file.stem), str)


def broken_files(folder):
    """One of each kind, and what is said about it."""
    first, second, *_ = files(folder)
    good = first.read_bytes()
    older = bytearray(good)
    older[8] += 1
    yield "its contents are damaged", good[:-1] + bytes([good[-1] ^ 1])
    yield "it is cut off or has more than it should", good[: len(good) // 2]
    yield "its header is cut off", good[:50]
    yield "it is empty", b""
    yield "it is no file of Stator's", b"\x7fELF" + bytes(200)
    yield "it is of another version of Stator", bytes(older)
    yield "it is the file of another graph", second.read_bytes()


def test_the_warning_names_the_file_and_what_is_wrong(folder):
    file = files(folder)[0]
    for what, bad in list(broken_files(folder)):
        _disk._told = False
        file.write_bytes(bad)
        answer, told = caught(lambda: load(file))
        assert answer is None
        assert told == [f"stator's cache: {file}: {what}; it is ignored, and the graph compiled anew"]


def test_many_damaged_files_give_one_warning(folder):
    for file in files(folder):
        file.write_bytes(file.read_bytes()[:-3])
    answers, told = caught(lambda: [load(file) for file in files(folder)])
    assert answers == [None] * len(answers) and len(told) == 1


def test_other_things_under_the_name(folder):
    file = files(folder)[0]
    file.unlink()
    assert _core.disk_read(str(folder), file.stem) is None
    file.mkdir()
    assert isinstance(_core.disk_read(str(folder), file.stem), str)
    file.rmdir()
    os.mkfifo(file)
    assert _core.disk_read(str(folder), file.stem) == "it is no regular file"


def test_what_does_not_load_is_ignored(folder):
    """A file that is whole, but whose contents mean nothing."""
    key = "0" * 64
    assert _core.disk_write(str(folder), key, [b"nothing"], 1 << 30) is None
    answer, told = caught(lambda: _disk.load(key))
    assert answer is None and len(told) == 1 and "cannot be used" in told[0]


# ---- writers


def fork(work):
    """Runs it in a child process, which never comes back here."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def key_of(number):
    return f"{number:064x}"


def parts_of(number):
    return [bytes([number % 256]) * (1000 * (number % 7) + 1), b"", str(number).encode()]


def check_whole(folder):
    for file in files(folder):
        assert _core.disk_read(str(folder), file.stem) == parts_of(int(file.stem, 16))


def kill_writers(folder, count):
    chance = random.Random(0)

    def write():
        for number in range(10_000):
            _core.disk_write(str(folder), key_of(number % 5), parts_of(number % 5), 1 << 30)

    for _ in range(count):
        child = fork(write)
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        check_whole(folder)


def test_a_file_for_deployment_is_the_old_one_or_the_new_one(tmp_path):
    """Its writer is killed: what was there before is there still, or all of what was to come."""
    path, chance = str(tmp_path / "file"), random.Random(0)
    assert _core.disk_write_file(path, key_of(7), parts_of(0)) is None

    def write():
        for number in range(10_000):
            _core.disk_write_file(path, key_of(7), parts_of(number % 5))

    for _ in range(20):
        child = fork(write)
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert _core.disk_read_file(path, key_of(7)) in [parts_of(number) for number in range(5)]
    assert _core.disk_write_file(str(tmp_path / "none" / "file"), key_of(7), parts_of(0)) == "No such file or directory"


def test_writers_that_are_killed(tmp_path):
    kill_writers(tmp_path / "new", 50)
    assert files(tmp_path / "new")


def test_what_killed_writers_leave_is_removed(tmp_path):
    _core.disk_write(str(tmp_path), key_of(1), parts_of(1), 1 << 30)
    old, new = tmp_path / f"{key_of(2)}.stator.1.0.tmp", tmp_path / f"{key_of(3)}.stator.1.0.tmp"
    for file in (old, new):
        file.write_bytes(b"unfinished")
    os.utime(old, (time.time() - 7200,) * 2)
    _core.disk_write(str(tmp_path), key_of(1), parts_of(1), 1 << 30)
    assert not old.exists() and new.exists()


def test_eight_processes_at_once(tmp_path):
    def work():
        chance = random.Random(os.getpid())
        for _ in range(300):
            number = chance.randrange(12)
            if chance.random() < 0.5:
                assert _core.disk_write(str(tmp_path), key_of(number), parts_of(number), 40_000) is None
            elif (found := _core.disk_read(str(tmp_path), key_of(number))) is not None and found != parts_of(number):
                os._exit(1)

    children = [fork(work) for _ in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    check_whole(tmp_path)
    assert not list(tmp_path.glob("*.tmp"))


def test_a_full_disk(tmp_path):
    """A write that fails in its middle leaves nothing, and is no error."""

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        problem = _core.disk_write(str(tmp_path), key_of(5), [bytes(100_000)], 1 << 30)
        if not isinstance(problem, str) or list(tmp_path.iterdir()):
            os._exit(1)

    assert os.waitpid(fork(work), 0)[1] == 0


def test_a_folder_that_cannot_be_written(caplog):
    """One line in the log, no warning, no error. (Nobody may write there, not even root.)"""
    with stator.config.patch(cache_dir="/proc/stator"), caplog.at_level(logging.DEBUG, "stator.cache"):
        from stator import _disk_write

        _, told = caught(lambda: _disk_write._put(key_of(1), [b"1"]))
        assert not told and [record.message for record in caplog.records] == [
            "not kept: /proc/stator: No such file or directory"
        ]
        assert _disk.load(key_of(1)) is None


def test_a_folder_that_can_only_be_read(place, tmp_path):
    """Files are found there; kernels are loaded from elsewhere."""
    shutil.copytree(place / "stator", tmp_path / "copy")
    names = [file.stem for file in files(tmp_path / "copy")]
    if os.geteuid() != 0:
        os.chmod(tmp_path / "copy", 0o500)
    with stator.config.patch(cache_dir=str(tmp_path / "copy")):
        for name in names:
            assert callable(_disk.load(name)[0])
    os.chmod(tmp_path / "copy", 0o700)
    assert len(list((tmp_path / "copy").iterdir())) == len(names)  # kernels are gone again


def test_the_least_used_goes_first(tmp_path):
    size = 10_000
    for number in range(5):
        _core.disk_write(str(tmp_path), key_of(number), [bytes(size)], 1 << 30)
        os.utime(tmp_path / f"{key_of(number)}.stator", (1000 + number,) * 2)
    assert _core.disk_read(str(tmp_path), key_of(0)) is not None  # used now
    _core.disk_write(str(tmp_path), key_of(9), [bytes(size)], 3 * size + 1000)
    assert [int(file.stem, 16) for file in files(tmp_path)] == [0, 4, 9]


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with stator.config.patch(cache_dir=None):
        assert _disk.folder() == str(tmp_path / "stator")
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
        assert _disk.folder() == str(tmp_path / "inductor" / "stator")
        import torch._inductor.runtime.cache_dir_utils as own  # its default, which it puts there by itself

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", own.default_cache_dir())
        assert _disk.folder() == str(tmp_path / "stator")
    with stator.config.patch(cache_dir="~/there"):
        assert _disk.folder() == os.path.expanduser("~/there")
    _core.disk_write(str(tmp_path / "a" / "b"), key_of(1), [b"x"], 1 << 30)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert files(tmp_path / "a" / "b")[0].stat().st_mode & 0o777 == 0o600


def test_digests_are_sha256():
    import hashlib

    for length in (0, 1, 55, 56, 63, 64, 65, 1000):
        data = bytes(range(256)) * 4
        assert _core.disk_digest(data[:length]) == hashlib.sha256(data[:length]).hexdigest()


# ---- what is not kept


def reasons(caplog, f, *inputs, **arguments):
    caplog.clear()
    with stator.config.patch(cache=True), caplog.at_level(logging.DEBUG, "stator.cache"):
        with torch.no_grad():
            assert torch.equal(stator.compile(f, backend="inductor", **arguments)(*inputs), f(*inputs))
    return [record.message for record in caplog.records]


def test_one_line_says_why_nothing_is_kept(caplog, tmp_path, monkeypatch):
    disk_programs_stub(monkeypatch)
    with stator.config.patch(cache_dir=str(tmp_path)):

        @stator.allow_in_graph
        def own(x):
            return x + 1

        x = torch.ones(3)
        assert reasons(caplog, lambda x: own(x) * 2, x) == [
            "not kept: it calls test_one_line_says_why_nothing_is_kept.<locals>.own, which is not torch's"
        ]


def disk_programs_stub(monkeypatch):
    from stator import _fx

    monkeypatch.setattr(_fx, "compile_graph", lambda module, backend, key="": (module._stator_runner, [], [], 0))
