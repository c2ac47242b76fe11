"""What is kept on the disk (docs/CACHE.md): which graphs, how large, when they were used last.

stator cache ls
stator cache info 3f2a
stator cache rm 3f2a 77c0, or: stator cache rm --unused 30, or: stator cache rm --all
"""

import marshal
import os
import time

from stator.commands import Failed

HELP = "list, describe and remove what is kept on the disk"


def add_arguments(parser):
    parser.add_argument("--folder", help="in place of config.cache_dir (STATOR_CACHE_DIR)")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("ls", help="one line for each file, the last used first")
    info = actions.add_parser("info", help="the folder as a whole, or all that is known of some files")
    info.add_argument("keys", nargs="*", metavar="KEY", help="the beginning of a file's name")
    rm = actions.add_parser("rm", help="remove files; programs that need them compile again")
    rm.add_argument("keys", nargs="*", metavar="KEY", help="the beginning of a file's name")
    rm.add_argument("--unused", type=float, metavar="DAYS", help="what was not used for so many days")
    rm.add_argument(
        "--limit", type=float, metavar="MIB", help="what was used least lately, until the rest is no larger"
    )
    rm.add_argument("--all", action="store_true", help="everything")


class Kept:
    """One file of the folder."""

    def __init__(self, path):
        self.path, self.key = path, os.path.basename(path).removesuffix(".stator")
        facts = os.stat(path)
        self.size, self.used = facts.st_size, facts.st_mtime

    def read(self):
        """(what it is, lines about it)"""
        from stator import _core

        parts = _core.disk_read_file(self.path, self.key)
        if not isinstance(parts, list):
            return f"unusable: {parts or 'gone'}", []
        if len(parts) == 1:
            lines = sorted(
                (line.split(" ", 3)[2:] for line in parts[0].decode().splitlines()), key=lambda line: line[1]
            )
            names = [f"{name}: {'the number' if dims == 'n' else _dims(dims)}" for dims, name in lines]
            return f"dynamic: {', '.join(names)}", names
        facts = marshal.loads(parts[0])
        kind = "forward and backward" if len(facts["graphs"]) > 1 else "forward"
        kernels = sum(len(graph["kernels"]) for graph in facts["graphs"])
        lines = [f"written inputs: {facts['written']}"] if facts["written"] else []
        lines += [f"output {i} is input {base} or a view of it" for i, base, _ in facts["views"]]
        lines += [f"holds for {condition}" for condition in facts["conditions"]]
        return f"{facts['title'] or 'a graph'}: {kind}, {kernels} kernels", lines


def _dims(dims):
    return "dim " + ", ".join(str(i) for i, dim in enumerate(dims) if dim == "1")


def _files(folder):
    """The last used first. Files come and go while others work there."""
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        key = name.removesuffix(".stator")
        if key != name and len(key) == 64 and not set(key) - set("0123456789abcdef"):
            try:
                found.append(Kept(os.path.join(folder, name)))
            except OSError:
                continue
    return sorted(found, key=lambda kept: -kept.used)


def _chosen(files, keys):
    chosen = []
    for key in keys:
        fit = [kept for kept in files if kept.key.startswith(key.removesuffix(".stator"))]
        if len(fit) != 1:
            raise Failed(f"{key}: {'no file begins so' if not fit else f'{len(fit)} files begin so'}")
        chosen += fit
    return chosen


def _size(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _ago(seconds):
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"


def _ls(files):
    now = time.time()
    for kept in files:
        print(f"{kept.key[:12]}  {_size(kept.size):>9}  {_ago(now - kept.used):>14}  {kept.read()[0]}")


def _info(files, folder, keys):
    from stator import config

    if not keys:
        total = sum(kept.size for kept in files)
        print(f"folder    {folder}\nfiles     {len(files)}\nsize      {_size(total)} of {config.cache_limit} MiB")
        print(f"on        {'yes' if config.cache else 'no (config.cache)'}")
        if files:
            print(
                f"used      {_ago(time.time() - files[0].used)}; longest unused: {_ago(time.time() - files[-1].used)}"
            )
    for kept in _chosen(files, keys):
        what, lines = kept.read()
        print(f"{kept.path}\n  {what}\n  {_size(kept.size)}, used {_ago(time.time() - kept.used)}")
        for line in lines:
            print(f"  {line}")


def _rm(files, folder, arguments):
    from stator import _core

    chosen = files if arguments.all else _chosen(files, arguments.keys)
    if arguments.unused is not None:
        before = time.time() - 86400 * arguments.unused
        chosen = chosen + [kept for kept in files if kept.used < before and kept not in chosen]
    if not arguments.all and not arguments.keys and arguments.unused is None and arguments.limit is None:
        raise Failed("rm needs keys, --unused DAYS, --limit MIB or --all")
    for kept in chosen:
        try:
            os.unlink(kept.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Failed(str(error)) from None
    if arguments.limit is not None:
        _core.disk_trim(folder, int(arguments.limit * 2**20))
    left = {kept.path for kept in _files(folder)}
    gone = [kept for kept in files if kept.path not in left]
    print(f"removed {len(gone)} files, {_size(sum(kept.size for kept in gone))}")


def main(arguments):
    from stator import _disk, config

    if arguments.folder:
        config.cache_dir = arguments.folder
    folder = _disk.folder()
    files = _files(folder)
    if arguments.action == "ls":
        _ls(files)
    elif arguments.action == "info":
        _info(files, folder, arguments.keys)
    else:
        _rm(files, folder, arguments)
    return 0
