"""Links as GitHub follows them, out of the folder of pages, become links as the site follows them."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath, relpath

_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "reference/changes.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "benchmarks/peers/README.md": "reference/peers.md",
    "results/README.md": "results/index.md",
}
_HOMES = {made: source for source, made in _PAGES.items() if source != "README.md"}
_RESULT = re.compile(r"results/([\w.-]+)/(README\.md|[\w-]+\.svg)")
_LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)\s#]+)((?:#[^)]*)?\))")


def anchor(path: str) -> str:
    """Of an example on the page of examples."""
    return re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")


def rewritten(markdown: str, page: str) -> str:
    """Links are read as seen from where the text lies in the repository, and written as seen from `page`."""
    home = _HOMES.get(page, join("docs", page))

    def replaced(match: re.Match[str]) -> str:
        target, rest = normpath(join(dirname(home), match[2])), match[3]
        if target in _PAGES:
            found = _PAGES[target]
        elif target.startswith("docs/"):
            found = target.removeprefix("docs/")
        elif (result := _RESULT.fullmatch(target)) is not None:
            found = f"results/{result[1]}.md" if result[2] == "README.md" else f"results/{result[2]}"
        elif target.startswith("examples"):
            found, rest = "reference/examples.md", f"#{anchor(target)})"
        else:
            return match[0]  # whatever it is, the strict build complains
        return match[1] + relpath(found, dirname(page) or ".") + rest

    parts = re.split(r"(^```.*?^```[^\n]*$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)
