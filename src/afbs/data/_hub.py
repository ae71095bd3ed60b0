"""Downloads from the Hugging Face hub, checked by size and hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

from afbs.types import UserError


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, as the hub describes it."""

    path: str
    size: int
    sha256: str


class Hub(Protocol):
    """What is asked of the hub."""

    def files(self, repository: str) -> list[HubFile]: ...

    def fetch(self, repository: str, path: str, folder: Path) -> Path:
        """Download one file to the same path below a folder; goes on where an earlier try was cut off."""


@final
class HuggingFace:
    """The hub itself, through its own library, which shows the progress."""

    def files(self, repository: str) -> list[HubFile]:
        info = _library().HfApi().dataset_info(repository, files_metadata=True, timeout=30)
        return [
            HubFile(file.rfilename, file.lfs.size if file.lfs else file.size, file.lfs.sha256 if file.lfs else "")
            for file in info.siblings or []
        ]

    def fetch(self, repository: str, path: str, folder: Path) -> Path:
        return Path(_library().hf_hub_download(repository, path, repo_type="dataset", local_dir=folder))


def download(hub: Hub, repository: str, splits: tuple[str, ...], folder: Path) -> None:
    """The Parquet files of some splits."""
    wanted = [file for file in hub.files(repository) if _belongs(file.path, splits)]
    if not wanted:
        raise UserError(f"The hub's {repository} has no Parquet files of {' and '.join(splits)}.")
    for file in wanted:
        path = folder / file.path
        if not (path.is_file() and path.stat().st_size == file.size):
            path = hub.fetch(repository, file.path, folder)
        _confirm(path, file)


def _belongs(path: str, splits: tuple[str, ...]) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") and name.partition("-")[0] in splits


def _confirm(path: Path, expected: HubFile) -> None:
    size = path.stat().st_size
    if size != expected.size:
        path.unlink()
        raise UserError(f"{path} has {size:,} bytes, expected {expected.size:,}. It was removed; please try again.")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if expected.sha256 and found != expected.sha256:
        path.unlink()
        raise UserError(f"{path}: the sha256 is {found}, expected {expected.sha256}. It was removed; please try again.")


def _library() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise UserError("Downloading needs huggingface_hub: pip install 'afbs[hub]'.") from error
    return huggingface_hub
