#!/usr/bin/env bash
# Installs the virtual machine monitor, unless it is there.
set -euo pipefail
command -v qemu-system-x86_64 >/dev/null && exit

say() { echo "ble-vm: $*" >&2; }

as_root=''
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { say "needs qemu-system-x86: be root, or install it"; exit 2; }
  as_root=sudo
fi
say "installing qemu-system-x86"
{ $as_root apt-get -o Acquire::Retries=5 update -q && $as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get -o Acquire::Retries=5 install -y -q --no-install-recommends qemu-system-x86; } >&2 || { say "cannot install qemu-system-x86"; exit 2; }
