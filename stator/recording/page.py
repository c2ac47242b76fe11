"""One page of recorded data: HTML with all that it needs inside, for any browser, without a network."""

from __future__ import annotations

import functools
import html as _html
import json
import os
from typing import Any

_ASSETS = os.path.join(os.path.dirname(__file__), "assets")
_SCRIPTS = ("text.js", "figures.js", "timeline.js", "views.js", "main.js")
MOST_TEXT = 60_000  # characters of one text: a graph of a thousand calls


@functools.cache
def _asset(name: str) -> str:
    with open(os.path.join(_ASSETS, name), encoding="utf-8") as file:
        return file.read()


def _shortened(process: dict[str, Any]) -> dict[str, Any]:
    texts = [
        text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "\n... (the data have all of it)"
        for text in process["texts"]
    ]
    return {**process, "texts": texts}


def html(data: dict[str, Any]) -> str:
    shown = {**data, "processes": [_shortened(process) for process in data["processes"]]}
    # Inside of a script element nothing may look like its end, or like the beginning of a comment.
    text = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    commands = data["processes"][0]["command"] if data["processes"] else []
    title = os.path.basename(commands[0]) if commands and commands[0] else "a process"
    parts = {
        "title": _html.escape(title),
        "style": _asset("page.css"),
        "script": "\n".join(_asset(name) for name in _SCRIPTS),
        "data": text,
    }
    page = _asset("page.html")
    for name, value in parts.items():
        page = page.replace(f"{{{{{name}}}}}", value, 1)
    return page


def frame(data: dict[str, Any]) -> str:
    """For notebooks: the page in a frame of its own, so that its style and scripts are its own."""
    return f'<iframe style="width:100%;height:720px;border:0" srcdoc="{_html.escape(html(data), quote=True)}"></iframe>'
