"""Every error agentm raises, in one tree.

AgentmError
├── InvalidLocatorError (ValueError)            a key that cannot be addressed
├── InvalidPathError (ValueError)               a path that is not absolute, or cannot be one
├── InvalidVersionError (ValueError)            a version token that is none
├── ProtocolError (ValueError)                  a protocol name that cannot be registered
├── BackendTypeError (TypeError)                something registered that is no backend class
├── BackendLoadError (ImportError)              a backend that is named but cannot be imported
├── MissingExtraError (ImportError)             an adapter whose framework is not installed
├── UnsupportedAbilityError (NotImplementedError)
│                                               an ability this backend does not declare
├── StoreError (OSError)                        the store said no; nothing was changed
│   ├── NotFoundError (FileNotFoundError)
│   ├── AlreadyExistsError (FileExistsError)
│   ├── IsDirectoryError (IsADirectoryError)
│   ├── NotDirectoryError (NotADirectoryError)
│   ├── NotEmptyError
│   ├── AccessError (PermissionError)
│   ├── NotTextError (ValueError)               bytes that are not UTF-8, or text that cannot be
│   ├── LockTimeoutError (TimeoutError)
│   ├── LockUnavailableError                    the place for lock files cannot be used
│   ├── IndexBusyError (TimeoutError)           another process writes to the index, or builds it anew
│   └── OutcomeUnknownError                     the change may or may not have landed
├── ConcurrentModificationError (RuntimeError)  someone else was faster; carries their version
│   ├── LockLostError                           the mutex was taken away while we slept
│   └── NodeConflictError                       the memory has another version by now; carries a diff
├── StorageSelectionError (RuntimeError)        the configured store cannot be produced
│   └── CapabilityMismatchError
├── InvalidUriError (ValueError)                an address that is none, or a name not every store can hold
├── InvalidNodeError (ValueError)               a memory that cannot be written as it is
├── AccessDeniedError (PermissionError)         another tenant's, or another owner's
├── BoundaryError (PermissionError)             a path that lies outside what may be read or written
├── NodeNotFoundError (LookupError)
├── NodeBrokenError (RuntimeError)              damage that needs a person
├── InvalidQueryError (ValueError)              a question that cannot be answered as it is
├── SecretFoundError (ValueError)               what is to be remembered holds a secret
├── EmbedderError (RuntimeError)                an embedder that gives no vectors
├── ConfigError (ValueError)
├── ReachError (ValueError)                     a file of reaches, or a scope, that cannot be meant
├── ProjectFileError (ValueError)
├── StateFileError (ValueError)                 a plan or progress file that cannot be named
│   └── ActivePlanError                         the marker of the active plan leads nowhere
├── SessionFileError (ValueError)               a session's file, or an item for it, that cannot be understood
└── RepoRegistryError (ValueError)

Each has a stable lower-case ``code`` and one sentence that says what to do. A plain ``except OSError``
or ``except ValueError`` keeps working: each error is also the builtin it resembles.
"""

from __future__ import annotations

import errno as _errno
from collections.abc import Sequence
from typing import Any


class AgentmError(Exception):
    """The root of every error agentm raises on purpose."""

    code = "agentm_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        backend: str | None = None,
        verb: str | None = None,
        locator: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.backend = backend
        self.verb = verb
        self.locator = locator

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (workers, the conformance kit): rebuild from the attributes,
        # because the builtin exceptions would replay positional arguments only.
        return _rebuild, (type(self), self.message, getattr(self, "errno", None), self.__dict__)


def _rebuild(cls: type[AgentmError], message: str, errno: int | None, state: dict[str, Any]) -> AgentmError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    if isinstance(error, OSError):
        error.errno = errno
    return error


class InvalidLocatorError(AgentmError, ValueError):
    code = "invalid_locator"


class InvalidPathError(AgentmError, ValueError):
    code = "invalid_path"


class InvalidVersionError(AgentmError, ValueError):
    code = "invalid_version"


class ProtocolError(AgentmError, ValueError):
    code = "protocol_invalid"


class BackendTypeError(AgentmError, TypeError):
    code = "backend_type"


class BackendLoadError(AgentmError, ImportError):
    code = "backend_load"


class MissingExtraError(AgentmError, ImportError):
    code = "missing_extra"


class UnsupportedAbilityError(AgentmError, NotImplementedError):
    code = "ability_unsupported"


class StoreError(AgentmError, OSError):
    code = "store_failed"

    def __init__(self, message: str, *, errno: int | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.errno = errno


class NotFoundError(StoreError, FileNotFoundError):
    code = "not_found"


class AlreadyExistsError(StoreError, FileExistsError):
    code = "already_exists"


class IsDirectoryError(StoreError, IsADirectoryError):
    code = "is_directory"


class NotDirectoryError(StoreError, NotADirectoryError):
    code = "not_directory"


class NotEmptyError(StoreError):
    code = "not_empty"


class AccessError(StoreError, PermissionError):
    code = "permission_denied"


class NotTextError(StoreError, ValueError):
    code = "not_text"


class LockTimeoutError(StoreError, TimeoutError):
    code = "lock_timeout"


class LockUnavailableError(StoreError):
    code = "lock_unavailable"


class IndexBusyError(StoreError, TimeoutError):
    code = "index_busy"


class OutcomeUnknownError(StoreError):
    code = "outcome_unknown"


class ConcurrentModificationError(AgentmError, RuntimeError):
    """Someone else changed the place first; ``current`` is the version that stands there now."""

    code = "concurrent_modification"

    def __init__(
        self, message: str, *, current: str | None = None, expected: str | None = None, **context: Any
    ) -> None:
        super().__init__(message, **context)
        self.current = current
        self.expected = expected


class LockLostError(ConcurrentModificationError):
    code = "lock_lost"


class NodeConflictError(ConcurrentModificationError):
    """The memory is at ``version`` by now; ``diff`` leads from its text to the one that was to be written."""

    code = "version_conflict"

    def __init__(self, message: str, *, version: int, diff: str, **context: Any) -> None:
        super().__init__(message, current=str(version), **context)
        self.version = version
        self.diff = diff


class StorageSelectionError(AgentmError, RuntimeError):
    code = "storage_selection"


class CapabilityMismatchError(StorageSelectionError):
    code = "capability_mismatch"

    def __init__(self, protocol: str, unsatisfied: list[str]) -> None:
        self.protocol = protocol
        self.unsatisfied = list(unsatisfied)
        names = ", ".join(unsatisfied)
        super().__init__(
            f"backend '{protocol}' does not satisfy the required capabilities: {names}; "
            "set storage.backend to one that does, or ask for less",
            backend=protocol,
        )


class InvalidUriError(AgentmError, ValueError):
    code = "invalid_uri"


class InvalidNodeError(AgentmError, ValueError):
    code = "invalid_node"


class AccessDeniedError(AgentmError, PermissionError):
    code = "access_denied"


class BoundaryError(AgentmError, PermissionError):
    """A path that a scope does not cover. It says what is allowed, never what is there or where a link leads."""

    code = "storage-boundary"

    def __init__(self, kind: str, path: str, allowed: Sequence[str] = (), why: str = "outside the scope") -> None:
        shown = ", ".join(map(_printable, allowed))
        super().__init__(f"{kind} not permitted: {_printable(path)} not in [{shown}] ({why})", locator=path)
        self.kind = kind
        self.path = path
        self.errno = _errno.EACCES


def _printable(path: str) -> str:
    """A path on one line and without commands to a terminal: who made it up may want more than to be refused."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in path)


class NodeNotFoundError(AgentmError, LookupError):
    code = "node_not_found"


class NodeBrokenError(AgentmError, RuntimeError):
    code = "node_broken"


class NodeBusyError(AgentmError, RuntimeError):
    code = "node_busy"


class NodeHiddenError(NodeBrokenError, NodeNotFoundError):
    """There is a node, and it is not shown, because the repair marked it as broken."""


class InvalidQueryError(AgentmError, ValueError):
    code = "invalid_query"


class SecretFoundError(AgentmError, ValueError):
    code = "secret_found"


class EmbedderError(AgentmError, RuntimeError):
    code = "embedder_failed"


class ConfigError(AgentmError, ValueError):
    code = "config_invalid"


class ReachError(AgentmError, ValueError):
    code = "reach_invalid"


class ProjectFileError(AgentmError, ValueError):
    code = "project_file_invalid"


class StateFileError(AgentmError, ValueError):
    code = "state_file_invalid"


class ActivePlanError(StateFileError):
    code = "active_plan_invalid"


class SessionFileError(AgentmError, ValueError):
    code = "session_file_invalid"


class RepoRegistryError(AgentmError, ValueError):
    code = "repo_registry_invalid"


# errno → (class, code, what happened, what to do)
_ERRNO: dict[int, tuple[type[StoreError], str, str, str]] = {
    _errno.ENOENT: (NotFoundError, "not_found", "nothing is there", "list its parent to see what is"),
    _errno.EEXIST: (AlreadyExistsError, "already_exists", "something is already there", "choose another key"),
    _errno.EISDIR: (IsDirectoryError, "is_directory", "it is a directory", "name a file inside it"),
    _errno.ENOTDIR: (
        NotDirectoryError,
        "not_directory",
        "a file stands where a directory is needed",
        "choose a key that does not pass through it",
    ),
    _errno.ENOTEMPTY: (NotEmptyError, "not_empty", "the directory is not empty", "remove what it holds first"),
    _errno.EACCES: (AccessError, "permission_denied", "permission was denied", "check owner and mode of the store"),
    _errno.EPERM: (AccessError, "permission_denied", "permission was denied", "check owner and mode of the store"),
    _errno.EROFS: (AccessError, "read_only_store", "the file system is read-only", "remount it or move the store"),
    _errno.ENOSPC: (StoreError, "no_space", "no space is left", "free some space and try again"),
    _errno.EFBIG: (StoreError, "too_big", "the file would be too big", "split the text"),
    _errno.EMFILE: (StoreError, "too_many_open_files", "too many files are open", "raise the limit (ulimit -n)"),
    _errno.ENFILE: (StoreError, "too_many_open_files", "too many files are open", "close other programs"),
    _errno.ENAMETOOLONG: (StoreError, "name_too_long", "a name in the key is too long", "shorten it to 255 bytes"),
    _errno.ELOOP: (StoreError, "symlink_refused", "a symbolic link is in the way", "use the key that it points to"),
    _errno.EIO: (StoreError, "io_error", "the device reported an error", "check the disk, then try again"),
}
if hasattr(_errno, "EDQUOT"):
    _ERRNO[_errno.EDQUOT] = (StoreError, "no_space", "the disk quota is used up", "free some space and try again")


# How a sentence says a verb whose name does not fit into one.
_PHRASES = {
    "append": "append to",
    "changes": "scan",
    "exists": "look for",
    "info": "look at",
    "mkdir": "make the folder",
}


def could_not(backend: str, verb: str, locator: str) -> str:
    """How every sentence about a failed verb begins."""
    return f"{backend} could not {_PHRASES.get(verb, verb)} {locator!r}"


def store_error(cause: OSError, *, backend: str, verb: str, locator: str, errno: int | None = None) -> StoreError:
    """Say in one sentence what the operating system refused, keeping its errno."""
    if isinstance(cause, StoreError):
        return cause
    number = errno if errno is not None else cause.errno
    fallback = (StoreError, "store_failed", cause.strerror or str(cause), "see the system's message and try again")
    cls, code, what, fix = _ERRNO.get(number or 0, fallback)
    return cls(
        f"{could_not(backend, verb, locator)}: {what}; {fix}.",
        code=code,
        errno=number,
        backend=backend,
        verb=verb,
        locator=locator,
    )
