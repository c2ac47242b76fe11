"""A page of the docs that a tool makes: written, or with --check compared with what lies there."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import wrap


def keep(page, text):
    text = wrap.wrapped(page, text)
    if "--check" not in sys.argv:
        page.write_text(text)
    elif not page.exists() or page.read_text() != text:
        sys.exit(f"docs/{page.name} is not up to date: run {sys.argv[0]}")
