"""A first write and read through the seam. Run it with `make run`."""

from agentm import CompareAndSwap, ConcurrentModificationError, Locator, protocol_of, require, select_backend

# Whatever the configuration names: plain files under ~/.agentm/memory, unless you chose otherwise.
backend = select_backend()
print(f"store     {protocol_of(backend)}")

# A place is a key, never a path. Writing makes the folders, and returns when the text would survive a power cut.
note = Locator("notes/first.md")
backend.write(note, "# First note\n\nThe owner likes tea.\n")
print(f"wrote     {note}, {backend.info(note).size} bytes")

# It comes back byte for byte.
print(f"read      {backend.read(note).splitlines()[-1]!r}")

# Changing a text that others may change too: read its version, and write only if it still stands.
if backend.capabilities.compare_and_swap:
    store = require(backend, CompareAndSwap)
    seen = store.read_versioned(note)
    store.write_versioned(note, seen.content.replace("tea", "green tea"), if_version=seen.version)
    print(f"changed   {backend.read(note).splitlines()[-1]!r}")
    try:
        store.write_versioned(note, "The owner likes coffee.\n", if_version=seen.version)
    except ConcurrentModificationError:
        print("refused   a second write against the old version: nothing was lost")

# Listing gives the children of a place, sorted.
print(f"listed    {', '.join(str(child) for child in backend.list(Locator('notes')))}")
