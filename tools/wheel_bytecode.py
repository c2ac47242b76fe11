"""Puts bytecode into a wheel: `python tools/wheel_bytecode.py dist/stator-*.whl`.

A start reads it whether or not the installer compiles anything, and whether or not the installation can be written to.
Each file says by a hash which source it is of, so that a changed source counts. (The build backend leaves .pyc files
out, so this is a step of its own.)
"""

import base64
import hashlib
import importlib.util
import marshal
import pathlib
import sys
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc


def bytecode(source: bytes, name: str) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True)
    assert marshal.loads(marshal.dumps(code)) == code
    return bytes(_code_to_hash_pyc(code, importlib.util.source_hash(source), True))


def record_row(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def add_bytecode(wheel: pathlib.Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist() if not info.filename.endswith(".pyc")]
    added = []
    for info, source in files:
        path = pathlib.PurePosixPath(info.filename)
        if path.suffix == ".py":
            name = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
            made = zipfile.ZipInfo(str(name), info.date_time)
            made.compress_type, made.external_attr = zipfile.ZIP_DEFLATED, info.external_attr
            added.append((made, bytecode(source, info.filename)))
    rows = "".join(record_row(info.filename, data) for info, data in added)
    whole = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in [*files, *added]:
            if info.filename.endswith(".dist-info/RECORD"):
                record = info, rows.encode() + data
            else:
                archive.writestr(info, data)
        archive.writestr(*record)
    whole.replace(wheel)
    return len(added)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: bytecode of {add_bytecode(pathlib.Path(argument))} modules")
