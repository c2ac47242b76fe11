#!/usr/bin/env python3
"""Lays out the pages of the site in build/docs/pages: README.md as its index, docs/, examples and changes; links are
set right for it."""

import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/docs/pages"
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "LICENSE": "LICENSE.md",
}


def moved(text, from_docs):
    """Links between the repository's pages, as they are on the site."""

    def link(found):
        target, _, anchor = found[2].partition("#")
        if "://" in target or not target:
            return found[0]
        target = target.removeprefix("../") if from_docs else target.removeprefix("docs/")
        target = TOP.get(target, target)
        return f"{found[1]}({target}{'#' + anchor if anchor else ''})"

    return re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", link, text)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for name, page in TOP.items():
        text = (ROOT / name).read_text()
        (OUT / page).write_text(f"```\n{text}\n```\n" if name == "LICENSE" else moved(text, False))
    for path in sorted((ROOT / "docs").iterdir()):
        if path.suffix == ".md":
            (OUT / path.name).write_text(moved(path.read_text(), True))
        else:
            shutil.copy(path, OUT / path.name)
    shutil.copytree(ROOT / "examples", OUT / "examples", ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
