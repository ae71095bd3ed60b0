"""A user's own modules: `package.module:Name`, looked for beside the configuration before anywhere else.

A file beside the configuration wins over whatever else has its name, and takes that name from nobody: if Python itself
would import another module for it (`test` and `code` are in the standard library), the user's is loaded under a name of
our own, and travels to other processes by value.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from afbs.types import UserError

_beside: list[Path] = []
_found: dict[int, tuple[Any, str]] = {}
_OURS = str(Path(__file__).parent)
_NOT_THEIRS = (_OURS, *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")), "<")
_FRAMES = 5


def search(*folders: Path) -> None:
    """Look in these folders first for `module:Name`, and last for what such a module imports itself."""
    _beside[:] = [folder.resolve() for folder in folders]
    importlib.invalidate_caches()
    for folder in map(str, _beside):
        if folder not in sys.path:
            sys.path.append(folder)


def attribute(place: str, path: str) -> Any:
    """What `package.module:Name` stands for; `place` is the setting that names it."""
    module, _, name = path.partition(":")
    if not all(module.split(".")) or not all(name.split(".")) or {"/", "\\", "\0"} & set(path):
        raise UserError(f"`{place}` must be a name or `package.module:Name`, got {path!r}.")
    found: Any = _module(place, path, module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UserError(f"`{place}` is {path!r}: module {module!r} has no attribute {name!r}.") from None
    _found[id(found)] = (found, path)
    return found


def path_of(thing: Any) -> str | None:
    """The path under which something was found, if it was."""
    return _found[id(thing)][1] if id(thing) in _found else None


def is_shadowed(path: str) -> bool:
    """Whether the module is a file beside the configuration that Python itself would not find under its name."""
    top = path.partition(":")[0].partition(".")[0]
    file = _file_beside(top) if ":" in path else None
    return file is not None and not _is_usual(top, file)


def _module(place: str, path: str, module: str) -> ModuleType:
    try:
        return _imported(module)
    except ModuleNotFoundError as error:
        if not _their_frames(error) and f"{module}.".startswith(f"{error.name}."):
            raise UserError(
                f"`{place}` is {path!r}: no module called {error.name!r} can be imported. Modules are looked for "
                "beside the configuration, in the current folder and where Python finds any other (PYTHONPATH)."
            ) from error
        raise _complaint(place, path, error) from error
    except (Exception, SystemExit) as error:  # whatever a user's module does when it is imported
        raise _complaint(place, path, error) from error


def _imported(module: str) -> ModuleType:
    top, dot, rest = module.partition(".")
    file = _file_beside(top)
    if file is None or _is_usual(top, file):
        return importlib.import_module(module)
    return importlib.import_module(f"{_aliased(top, file)}{dot}{rest}")


def _file_beside(top: str) -> Path | None:
    if top in ("", "afbs", "__main__"):
        return None
    places = [folder / name for folder in _beside for name in (f"{top}.py", f"{top}/__init__.py")]
    return next((place for place in places if place.is_file()), None)


def _is_usual(top: str, file: Path) -> bool:
    """Whether `import top` gives this very file."""
    loaded = sys.modules.get(top)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        spec = importlib.util.find_spec(top)
        origin = spec.origin if spec else None
    return origin is not None and Path(origin).resolve() == file.resolve()


def _aliased(top: str, file: Path) -> str:
    """The name of our own under which a file is loaded, once."""
    alias = f"_{blake2b(str(file).encode(), digest_size=4).hexdigest()}_{top}"
    if alias in sys.modules:
        return alias
    inside = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(alias, file, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    sys.modules[alias] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[alias]
        raise
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return alias


def _complaint(place: str, path: str, error: BaseException) -> UserError:
    """Where in the user's own code it went wrong, and what is there."""
    reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}".removesuffix(": ")
    frames = _their_frames(error)
    if isinstance(error, SyntaxError) and error.filename:
        shown = [f"  {error.filename}, line {error.lineno}", *([f"    {error.text.strip()}"] if error.text else [])]
        where = f"{error.filename}, line {error.lineno}"
        reason = f"{type(error).__name__}: {error.msg}"
    elif frames:
        shown = []
        for frame in frames[-_FRAMES:]:
            shown += [f"  {frame.filename}, line {frame.lineno}, in {frame.name}", f"    {frame.line}"]
        where = f"{frames[-1].filename}, line {frames[-1].lineno}"
    else:
        shown, where = [], path.partition(":")[0]
    return UserError("\n".join([f"`{place}` is {path!r}: importing it raised {reason} ({where}).", *shown]))


def _their_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_NOT_THEIRS)]
