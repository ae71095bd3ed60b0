"""Downloads from the Hugging Face hub, checked by size and hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, final
from urllib.request import Request, urlopen

from afbs.types import UserError

_CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, as the hub describes it."""

    path: str
    size: int
    sha256: str


class Hub(Protocol):
    """What is asked of the hub."""

    def files(self, repository: str) -> list[HubFile]: ...

    def fetch(self, repository: str, file: HubFile, folder: Path) -> Path:
        """Download one file to the same path below a folder; goes on where an earlier try was cut off."""


def _silent(path: str, done: int, size: int) -> None:
    pass


@final
class HuggingFace:
    """The hub itself. `report` is told of each file how many bytes of how many are here.

    Its library knows what there is and where. The bytes are fetched here, because the library (as of 2.4) throws away
    what it has when it is killed. The data sets are public, so no token is sent.
    """

    def __init__(self, report: Callable[[str, int, int], None] = _silent):
        self._report = report

    def files(self, repository: str) -> list[HubFile]:
        info = _library().HfApi().dataset_info(repository, files_metadata=True, timeout=30, token=False)
        return [
            HubFile(file.rfilename, file.lfs.size if file.lfs else file.size, file.lfs.sha256 if file.lfs else "")
            for file in info.siblings or []
        ]

    def fetch(self, repository: str, file: HubFile, folder: Path) -> Path:
        target = folder / file.path
        partial = target.with_name(f"{target.name}.part")
        partial.parent.mkdir(parents=True, exist_ok=True)
        done = partial.stat().st_size if partial.exists() else 0
        if done != file.size:
            done = self._continue(
                _library().hf_hub_url(repository, file.path, repo_type="dataset"), partial, done, file
            )
        if done < file.size:
            raise ConnectionError(f"{file.path} was cut off after {done:,} of {file.size:,} bytes")
        return partial.replace(target)

    def _continue(self, url: str, partial: Path, done: int, file: HubFile) -> int:
        request = Request(url, headers={"Range": f"bytes={done}-"} if 0 < done < file.size else {})
        with urlopen(request, timeout=60) as answer:
            goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
            done = done if goes_on else 0
            with partial.open("ab" if goes_on else "wb") as out:
                while chunk := answer.read(_CHUNK):
                    out.write(chunk)
                    out.flush()
                    done += len(chunk)
                    self._report(file.path, done, file.size)
        return done


def download(hub: Hub, repository: str, splits: tuple[str, ...], folder: Path) -> None:
    """The Parquet files of some splits."""
    wanted = [file for file in hub.files(repository) if _belongs(file.path, splits)]
    if not wanted:
        raise UserError(f"The hub's {repository} has no Parquet files of {' and '.join(splits)}.")
    for file in wanted:
        path = folder / file.path
        if not (path.is_file() and path.stat().st_size == file.size):
            path = hub.fetch(repository, file, folder)
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
