"""agentm: an agent's memory as plain files its owner can read, on any store.

Every public name is importable from here and loaded on first use, so that ``import agentm`` costs
next to nothing.
"""

__version__ = "0.1.0"

_HOME = {
    "agentm.backends.device_local": ("DeviceLocalBackend",),
    "agentm.backends.memory": ("MemoryBackend",),
    "agentm.backends.sqlite": ("SqliteBackend",),
    "agentm.backends.vault": ("VaultBackend",),
    "agentm.conflicts": ("ConflictFile", "detect_conflict_files"),
    "agentm.conformance": ("CheckResult", "ConformanceReport", "run_conformance"),
    "agentm.context.contextfs": ("ContextFS", "Receipt"),
    "agentm.context.events": ("OutboxEvent",),
    "agentm.context.node": ("ContextNode", "NodeStatus", "RelationEdge"),
    "agentm.context.outbox": ("OutboxHandler", "OutboxWorker"),
    "agentm.context.repair": ("repair",),
    "agentm.context.summarise": ("Summariser",),
    "agentm.context.tenancy": ("RequestContext",),
    "agentm.errors": (
        "AccessDeniedError",
        "AccessError",
        "ActivePlanError",
        "AgentmError",
        "AlreadyExistsError",
        "BackendLoadError",
        "BackendTypeError",
        "BoundaryError",
        "CapabilityMismatchError",
        "ConcurrentModificationError",
        "ConfigError",
        "EmbedderError",
        "IndexBusyError",
        "InvalidLocatorError",
        "InvalidNodeError",
        "InvalidPathError",
        "InvalidQueryError",
        "InvalidUriError",
        "InvalidVersionError",
        "IsDirectoryError",
        "LockLostError",
        "LockTimeoutError",
        "LockUnavailableError",
        "MissingExtraError",
        "NodeBrokenError",
        "NodeBusyError",
        "NodeConflictError",
        "NodeHiddenError",
        "NodeNotFoundError",
        "NotDirectoryError",
        "NotEmptyError",
        "NotFoundError",
        "NotTextError",
        "OutcomeUnknownError",
        "ProjectFileError",
        "ProtocolError",
        "ReachError",
        "RepoRegistryError",
        "SecretFoundError",
        "SessionFileError",
        "StateFileError",
        "StorageSelectionError",
        "StoreError",
        "UnsupportedAbilityError",
    ),
    "agentm.files.backend": ("BackendStorage",),
    "agentm.files.base": ("BlockingStorage", "DirEntry", "Storage"),
    "agentm.files.fs": ("FsStorage",),
    "agentm.files.in_memory": ("InMemoryStorage",),
    "agentm.files.reach": ("Reach", "load_reach", "parse_reach"),
    "agentm.files.scope": ("ScopedStorageScope",),
    "agentm.files.scoped": ("ScopedStorage",),
    "agentm.index.embed": ("CallableEmbedder", "Embedder", "OpenAIEmbedder", "SentenceTransformerEmbedder"),
    "agentm.layers.scoped": ("ScopedBackend",),
    "agentm.memory": ("Memory", "Note"),
    "agentm.process": ("offer_save_here", "recall_here", "state_path"),
    "agentm.projects": ("Project", "resolve_project"),
    "agentm.recall.results": ("Found", "Recall"),
    "agentm.repo_registry": (
        "list_repos",
        "read_registry",
        "register_repo",
        "registry_locator",
        "unregister_repo",
        "write_registry",
    ),
    "agentm.seam": (
        "ABILITIES",
        "ABSENT",
        "ROOT",
        "Append",
        "BackendRegistry",
        "Capabilities",
        "Change",
        "ChangeFeed",
        "CompareAndSwap",
        "DerivedMaintenance",
        "Held",
        "Info",
        "Locator",
        "Lock",
        "Remove",
        "Rename",
        "StorageBackend",
        "Tier",
        "TierLayout",
        "Versioned",
        "Watch",
        "Watcher",
        "WriteMany",
        "normalize_key",
        "protocol_of",
        "registry",
        "require",
        "unsupported",
        "update",
    ),
    "agentm.selection": ("StoragePreview", "choose_protocol", "select_backend", "storage_preview"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_MODULE_OF, "__version__"])


# Not typing.TYPE_CHECKING: importing typing would cost more than the rest of this module. Type checkers know the
# name, take it for True, and see what the table above means; a test keeps the two equal.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentm.backends.device_local import DeviceLocalBackend as DeviceLocalBackend
    from agentm.backends.memory import MemoryBackend as MemoryBackend
    from agentm.backends.sqlite import SqliteBackend as SqliteBackend
    from agentm.backends.vault import VaultBackend as VaultBackend
    from agentm.conflicts import ConflictFile as ConflictFile, detect_conflict_files as detect_conflict_files
    from agentm.conformance import (
        CheckResult as CheckResult,
        ConformanceReport as ConformanceReport,
        run_conformance as run_conformance,
    )
    from agentm.context.contextfs import (
        ContextFS as ContextFS,
        Receipt as Receipt,
    )
    from agentm.context.events import OutboxEvent as OutboxEvent
    from agentm.context.node import (
        ContextNode as ContextNode,
        NodeStatus as NodeStatus,
        RelationEdge as RelationEdge,
    )
    from agentm.context.outbox import (
        OutboxHandler as OutboxHandler,
        OutboxWorker as OutboxWorker,
    )
    from agentm.context.repair import repair as repair
    from agentm.context.summarise import Summariser as Summariser
    from agentm.context.tenancy import RequestContext as RequestContext
    from agentm.errors import (
        AccessDeniedError as AccessDeniedError,
        AccessError as AccessError,
        ActivePlanError as ActivePlanError,
        AgentmError as AgentmError,
        AlreadyExistsError as AlreadyExistsError,
        BackendLoadError as BackendLoadError,
        BackendTypeError as BackendTypeError,
        BoundaryError as BoundaryError,
        CapabilityMismatchError as CapabilityMismatchError,
        ConcurrentModificationError as ConcurrentModificationError,
        ConfigError as ConfigError,
        EmbedderError as EmbedderError,
        IndexBusyError as IndexBusyError,
        InvalidLocatorError as InvalidLocatorError,
        InvalidNodeError as InvalidNodeError,
        InvalidPathError as InvalidPathError,
        InvalidQueryError as InvalidQueryError,
        InvalidUriError as InvalidUriError,
        InvalidVersionError as InvalidVersionError,
        IsDirectoryError as IsDirectoryError,
        LockLostError as LockLostError,
        LockTimeoutError as LockTimeoutError,
        LockUnavailableError as LockUnavailableError,
        MissingExtraError as MissingExtraError,
        NodeBrokenError as NodeBrokenError,
        NodeBusyError as NodeBusyError,
        NodeConflictError as NodeConflictError,
        NodeHiddenError as NodeHiddenError,
        NodeNotFoundError as NodeNotFoundError,
        NotDirectoryError as NotDirectoryError,
        NotEmptyError as NotEmptyError,
        NotFoundError as NotFoundError,
        NotTextError as NotTextError,
        OutcomeUnknownError as OutcomeUnknownError,
        ProjectFileError as ProjectFileError,
        ProtocolError as ProtocolError,
        ReachError as ReachError,
        RepoRegistryError as RepoRegistryError,
        SecretFoundError as SecretFoundError,
        SessionFileError as SessionFileError,
        StateFileError as StateFileError,
        StorageSelectionError as StorageSelectionError,
        StoreError as StoreError,
        UnsupportedAbilityError as UnsupportedAbilityError,
    )
    from agentm.files.backend import BackendStorage as BackendStorage
    from agentm.files.base import (
        BlockingStorage as BlockingStorage,
        DirEntry as DirEntry,
        Storage as Storage,
    )
    from agentm.files.fs import FsStorage as FsStorage
    from agentm.files.in_memory import InMemoryStorage as InMemoryStorage
    from agentm.files.reach import (
        Reach as Reach,
        load_reach as load_reach,
        parse_reach as parse_reach,
    )
    from agentm.files.scope import ScopedStorageScope as ScopedStorageScope
    from agentm.files.scoped import ScopedStorage as ScopedStorage
    from agentm.index.embed import (
        CallableEmbedder as CallableEmbedder,
        Embedder as Embedder,
        OpenAIEmbedder as OpenAIEmbedder,
        SentenceTransformerEmbedder as SentenceTransformerEmbedder,
    )
    from agentm.layers.scoped import ScopedBackend as ScopedBackend
    from agentm.memory import Memory as Memory, Note as Note
    from agentm.process import (
        offer_save_here as offer_save_here,
        recall_here as recall_here,
        state_path as state_path,
    )
    from agentm.projects import Project as Project, resolve_project as resolve_project
    from agentm.recall.results import Found as Found, Recall as Recall
    from agentm.repo_registry import (
        list_repos as list_repos,
        read_registry as read_registry,
        register_repo as register_repo,
        registry_locator as registry_locator,
        unregister_repo as unregister_repo,
        write_registry as write_registry,
    )
    from agentm.seam import (
        ABILITIES as ABILITIES,
        ABSENT as ABSENT,
        ROOT as ROOT,
        Append as Append,
        BackendRegistry as BackendRegistry,
        Capabilities as Capabilities,
        Change as Change,
        ChangeFeed as ChangeFeed,
        CompareAndSwap as CompareAndSwap,
        DerivedMaintenance as DerivedMaintenance,
        Held as Held,
        Info as Info,
        Locator as Locator,
        Lock as Lock,
        Remove as Remove,
        Rename as Rename,
        StorageBackend as StorageBackend,
        Tier as Tier,
        TierLayout as TierLayout,
        Versioned as Versioned,
        Watch as Watch,
        Watcher as Watcher,
        WriteMany as WriteMany,
        normalize_key as normalize_key,
        protocol_of as protocol_of,
        registry as registry,
        require as require,
        unsupported as unsupported,
        update as update,
    )
    from agentm.selection import (
        StoragePreview as StoragePreview,
        choose_protocol as choose_protocol,
        select_backend as select_backend,
        storage_preview as storage_preview,
    )
else:

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'agentm' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(module), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
