#!/usr/bin/env bash
# Make sure that what the fault tests need is there. Only CI calls this: there, a missing tool is a failure, not a skip.
set -euo pipefail

if command -v strace >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "test-deps: strace is missing and cannot be installed from here; install it first: sudo apt-get install strace." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends strace
