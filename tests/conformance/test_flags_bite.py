"""The flags that describe a store are held to what can be seen of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentm import Capabilities, Locator, MemoryBackend, run_conformance
from agentm.conformance.oracles import FileOracle
from tests.conformance import filestore

pytestmark = pytest.mark.spec("SEAM-04", "SEAM-18")


def outcome(make_backend, name, **options):
    (result,) = run_conformance(make_backend, only=[name], **options).results
    return result


class WithConflicts(MemoryBackend):
    strategy = "whole-file"

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, conflict_files=True)

    @property
    def conflict_strategy(self) -> str:
        return self.strategy


class WithoutStrategy(WithConflicts):
    strategy = "none"


class MergesConflicts(WithConflicts):
    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(Locator(locator.key.replace(" (conflicted copy 2024-05-01)", "")), content)


@pytest.mark.parametrize(
    ("store", "status"), [(WithConflicts, "pass"), (WithoutStrategy, "fail"), (MergesConflicts, "fail")]
)
def test_conflict_copies_stay_and_have_a_strategy(store, status):
    assert outcome(store, "conflict_files").status == status


class SaysEncrypted(MemoryBackend):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, encryption=True)

    def raw(self, locator: Locator) -> bytes | None:
        file = self._files.get(locator.key)
        return file.data if file else None


class Encrypts(SaysEncrypted):
    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(locator, content.encode().hex())

    def read(self, locator: Locator) -> str:
        return bytes.fromhex(super().read(locator)).decode()


def raw(backend, locator):
    return backend.raw(locator)


@pytest.mark.parametrize(("store", "status"), [(Encrypts, "pass"), (SaysEncrypted, "fail")])
def test_plain_text_in_an_encrypted_store_is_found(store, status):
    assert outcome(store, "encryption", oracle=raw).status == status


def test_encryption_cannot_be_judged_without_an_oracle():
    assert outcome(Encrypts, "encryption").status == "skip"


class Replicated(filestore.FileStore):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sync=True)


@pytest.mark.parametrize(("store", "status"), [(Replicated, "pass"), (filestore.LitterInTheTree, "fail")])
def test_nothing_but_texts_lies_in_a_replicated_tree(store, status, tmp_path):
    assert outcome(lambda: store(str(tmp_path)), "sync", oracle=FileOracle()).status == status


def test_a_replicated_tree_cannot_be_judged_without_an_oracle_that_lists(tmp_path):
    assert outcome(lambda: Replicated(str(tmp_path)), "sync").status == "skip"


def test_an_oracle_catches_a_backend_that_remembers_one_thing_and_stores_another(tmp_path):
    result = outcome(lambda: filestore.KeepsToItself(str(tmp_path)), "lf_exact_round_trip", oracle=FileOracle())
    assert (result.status, "behind the backend" in result.detail) == ("fail", True)
