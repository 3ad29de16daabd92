#!/usr/bin/env bash
# Make sure that the programs are there that some tests need.
#
#   test-deps.sh        strace, for the fault tests. Only CI calls this: there, a missing tool is a failure, not a skip.
#   test-deps.sh crash  also what formats disks, for the tests that take the power from one. These need root anyway:
#                       what cannot be installed is said, and the tests that miss it say that they are skipped.
set -euo pipefail

wanted=(strace:strace)
if [ "${1:-}" = crash ]; then
    wanted+=(mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs)
fi
missing=()
for one in "${wanted[@]}"; do
    # On some systems what only root uses is not on everybody's path.
    PATH="$PATH:/usr/sbin:/sbin" command -v "${one%%:*}" >/dev/null || missing+=("${one##*:}")
done
if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; then
        exit 0
    fi
fi
hint="missing, and cannot be installed from here: sudo apt-get install ${missing[*]}."
if [ "${1:-}" = crash ]; then
    echo "test-deps: ${missing[*]}: $hint What needs it is skipped." >&2
    exit 0
fi
echo "test-deps: ${missing[*]}: $hint" >&2
exit 1
