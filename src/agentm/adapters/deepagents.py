"""A backend for deepagents: its agents' files lie below a folder of the store, where a person and recall find them.

Nothing is raised at an agent: what goes wrong is said in the results, with the words that deepagents' own backends use.
The asynchronous twins are the protocol's own, which go through a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import UnionType

from agentm.adapters._extras import missing
from agentm.errors import (
    AgentmError,
    InvalidLocatorError,
    InvalidQueryError,
    NotFoundError,
    NotTextError,
)
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam import ROOT, Info, Locator, StorageBackend, update
from agentm.seam.trees import empty, entries, remove_tree
from agentm.selection import select_backend

try:
    from deepagents.backends.protocol import (
        FILE_NOT_FOUND,
        INVALID_PATH,
        IS_DIRECTORY,
        PERMISSION_DENIED,
        BackendProtocol,
        DeleteResult,
        EditResult,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepMatch,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
    from deepagents.backends.utils import (
        InvalidGlobPatternError,
        compile_grep_include_glob,
        perform_string_replacement,
        slice_read_response,
    )
except ImportError as cause:
    raise missing("deepagents", cause) from cause

FOLDER = "files"


class AgentmBackend(BackendProtocol):
    """Files of an agent below ``folder`` of a store: a backend, or for None the one that is configured.

    ``/`` is that folder. Whole names of a path are looked at: ``report..final.md`` is a name like any other, and ``..``
    is refused.
    """

    def __init__(self, backend: StorageBackend | None = None, *, folder: str = FOLDER) -> None:
        store = select_backend() if backend is None else backend
        self._root = store.resolve(folder)
        # The folder is the agent's whole world: not even a link in it leads out.
        here = [f"/{self._root.key}"]
        self._backend = ScopedBackend(store, ScopedStorageScope(read=here, write=here))

    # Looking.

    def ls(self, path: str) -> LsResult:
        try:
            place = self._place(path)
            if place != self._root and not self._backend.exists(place):
                return LsResult(error=f"Path '{path}': path_not_found")
            if self._backend.exists(place) and not self._backend.info(place).is_dir:
                return LsResult(error=f"Path '{path}': not_a_directory")
            return LsResult(entries=[self._entry(info) for info in entries(self._backend, place)])
        except (AgentmError, OSError) as error:
            return LsResult(error=f"Cannot list '{path}': {_reason(error)}")

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            found = self._matching(path, pattern)
            return GlobResult(matches=[self._entry(info) for info in found])
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        except (AgentmError, OSError) as error:
            return GlobResult(error=f"Error globbing path '{path or '/'}': {_reason(error)}")

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        matches: list[GrepMatch] = []
        unread: list[str] = []
        try:
            _check(str, pattern=pattern)
            for info in self._matching(path, glob):
                for match in self._matches_in(info.locator, pattern, unread):
                    if max_count is not None and len(matches) >= max_count:
                        return GrepResult(error=_unread(unread), matches=matches, truncated=True)
                    matches.append(match)
        except InvalidGlobPatternError as error:
            return GrepResult(error=str(error))
        except (AgentmError, OSError) as error:
            return GrepResult(error=f"Error searching path '{path or '/'}': {_reason(error)}")
        return GrepResult(error=_unread(unread), matches=matches)

    # One file.

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            _check(int, offset=offset, limit=limit)
            place = self._place(file_path)
            data = FileData(content=self._backend.read(place), encoding="utf-8")
            data["modified_at"] = _moment(self._backend.info(place))
        except FileNotFoundError:
            return ReadResult(error=f"File '{file_path}' not found")
        except (AgentmError, OSError) as error:
            return ReadResult(error=f"Error reading file '{file_path}': {_reason(error)}")
        return slice_read_response(data, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        try:
            self._backend.write(self._place(file_path), content)
        except (AgentmError, OSError) as error:
            return WriteResult(error=f"Error writing file '{file_path}': {_reason(error)}")
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """What another writes meanwhile is not lost: the text of now is edited, and edited again if it has changed."""
        count = 0

        def edited(text: str | None) -> str:
            nonlocal count
            if text is None:
                raise NotFoundError(f"there is no file {file_path!r}; write it first.")
            done = perform_string_replacement(text, old_string, new_string, replace_all)
            if isinstance(done, str):
                raise _RefusedError(done)
            new, count = done
            return new

        try:
            _check(str, old_string=old_string, new_string=new_string)
            update(self._backend, self._place(file_path), edited)
        except _RefusedError as refusal:
            return EditResult(error=str(refusal))
        except FileNotFoundError:
            return EditResult(error=f"Error: File '{file_path}' not found")
        except (AgentmError, OSError) as error:
            return EditResult(error=f"Error editing file '{file_path}': {_reason(error)}")
        return EditResult(path=file_path, occurrences=count)

    def delete(self, file_path: str) -> DeleteResult:
        try:
            place = self._place(file_path)
            if not self._backend.exists(place):
                return DeleteResult(error=f"Error: '{file_path}' not found")
            if place == ROOT:
                empty(self._backend, place)  # all of a store goes, the store itself stays
            else:
                remove_tree(self._backend, place)
        except (AgentmError, OSError) as error:
            return DeleteResult(error=f"Error deleting '{file_path}': {_reason(error)}")
        return DeleteResult(path=file_path)

    # Many files, as bytes.

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def _upload(self, path: str, data: bytes) -> str | None:
        try:
            _check(bytes, data=data)
            self._backend.write(self._place(path), data.decode())
        except UnicodeDecodeError:
            return INVALID_PATH  # what deepagents calls a file that its place cannot hold: the store holds text
        except (AgentmError, OSError) as error:
            return _reason(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self._backend.read(self._place(path)).encode())
        except (AgentmError, OSError) as error:
            return FileDownloadResponse(path=path, error=_reason(error))

    # Places.

    def _place(self, path: str) -> Locator:
        return self._root.child(Locator(path).key)  # which says of what is no path that it is none

    def _path(self, place: Locator) -> str:
        return "/" + "/".join(place.parts[len(self._root.parts) :])

    def _entry(self, info: Info) -> FileInfo:
        path = self._path(info.locator)
        return FileInfo(
            path=f"{path}/" if info.is_dir else path, is_dir=info.is_dir, size=info.size, modified_at=_moment(info)
        )

    def _matching(self, path: str | None, pattern: str | None) -> list[Info]:
        """The files at or below a path whose way from there fits a pattern, sorted."""
        _check(str | None, pattern=pattern)
        fits = compile_grep_include_glob(pattern) if pattern else None
        top = self._place("/" if path is None else path)
        if not self._backend.exists(top):
            return []
        there = self._backend.info(top)
        below = len(top.parts) if there.is_dir else len(top.parts) - 1
        return [
            info
            for info in (self._files(top) if there.is_dir else [there])
            if fits is None or fits("/".join(info.locator.parts[below:]))
        ]

    def _files(self, place: Locator) -> Iterator[Info]:
        left = entries(self._backend, place)[::-1]
        while left:
            info = left.pop()
            if info.is_dir:
                left += entries(self._backend, info.locator)[::-1]
            else:
                yield info

    def _matches_in(self, place: Locator, pattern: str, unread: list[str]) -> Iterator[GrepMatch]:
        try:
            text = self._backend.read(place)
        except (FileNotFoundError, NotTextError):
            return  # gone since it was listed, or nothing that holds lines
        except (AgentmError, OSError) as error:
            unread.append(f"{self._path(place)}: {_reason(error)}")
            return
        for number, line in enumerate(text.splitlines(), 1):
            if pattern in line:
                yield GrepMatch(path=self._path(place), line=number, text=line)


class _RefusedError(Exception):
    """An edit that the text of now does not allow, in deepagents' words."""


def _check(kind: type | UnionType, **given: object) -> None:
    """What a model left out or mixed up is said to it, as everything else is."""
    for name, value in given.items():
        if not isinstance(value, kind):
            raise InvalidQueryError(f"{name} is {type(value).__name__}; give {getattr(kind, '__name__', kind)}.")


def _reason(error: Exception) -> str:
    """One of deepagents' codes where there is one. What a scope allows instead is nobody's business."""
    if isinstance(error, FileNotFoundError):
        return FILE_NOT_FOUND
    if isinstance(error, IsADirectoryError):
        return IS_DIRECTORY
    if isinstance(error, PermissionError):
        return PERMISSION_DENIED
    if isinstance(error, InvalidLocatorError):
        return INVALID_PATH
    return str(error)


def _unread(files: list[str]) -> str | None:
    return f"Some files could not be searched: {'; '.join(files)}" if files else None


def _moment(info: Info) -> str:
    return datetime.fromtimestamp(info.mtime, UTC).isoformat()
