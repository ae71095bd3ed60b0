"""`afbs new`: a Flower app that is ready to run."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from afbs.types import UserError

_IN_PACKAGE = ("client_app.py", "server_app.py", "dataset.py", "model.py", "afbs.toml")


def write_project(folder: Path, publisher: str = "you") -> list[Path]:
    """The files of a new app in `folder`, which must not exist or be empty; it is named after the folder."""
    name = folder.name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,60}", name):
        raise UserError(f"A project's name has letters, digits, - and _, and begins with a letter; got {name!r}.")
    package = name.replace("-", "_").lower()
    words = {"name": name, "package": package, "publisher": publisher, "path": str(folder)}
    files = {Path("pyproject.toml"): "pyproject.toml", Path("README.md"): "README.md"}
    files |= {Path(package) / file: file for file in _IN_PACKAGE}
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} exists already, and nothing in it is overwritten. Choose another name.")
        (folder / package).mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}.") from error
    (folder / package / "__init__.py").write_text(f'"""{name}."""\n', encoding="utf-8")
    written = [Path(package) / "__init__.py"]
    for path, template in files.items():
        text = resources.files("afbs.apps").joinpath("template", f"{template}.tmpl").read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"{{{word}}}", value)
        (folder / path).write_text(text, encoding="utf-8")
        written.append(path)
    return written
