"""What the site has beyond the Markdown in this folder: pages made from the code, and links that lead out of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from making import api, commands, examples, notebooks, results, settings
from making.links import rewritten
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every page that is made, none of which lies in this folder."""
    made = {
        **settings.pages(),
        **commands.pages(),
        **api.pages(),
        **examples.pages(ROOT),
        **notebooks.pages(ROOT / "docs" / "tutorials"),
        **results.pages(ROOT),
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Drawings become part of their page, so that they are light or dark with it."""
    return re.sub(r'<img alt="([^"]*)" src="[^"]*?images/([\w-]+\.svg)"[^>]*>', _inlined, html)


def _inlined(match: re.Match[str]) -> str:
    text = (ROOT / "docs" / "images" / match[2]).read_text(encoding="utf-8")
    if 'class="drawing"' not in text:
        return match[0]
    drawing: Any = re.sub(r"^.*?<svg", f'<svg role="img" aria-label="{match[1]}"', text, count=1, flags=re.S)
    return str(drawing)
