#!/usr/bin/env bash
# Boots the virtual machine, runs a script in it and brings back what the script left in /out.
#
#   boot.sh SCRIPT [FILE…]
#
#   SUITE=trixie     the Debian release inside: trixie (BlueZ 5.82) or bookworm (5.66)
#   OUT=DIRECTORY    where /out goes, and console.log; replaced. target/ble-vm/SUITE/out by default
#   SECONDS_MAX=170  when the machine is stopped, whatever it does
#   ACCEL=kvm        hardware virtualisation, if this machine has it; software emulation by default
#
# SCRIPT is for busybox sh, and starts with `. /lib.sh` (inside/lib.sh) for the functions there. Every FILE, directories with
# all they contain, is in the script's working directory, /work, by its own name; programs are in its path, with the libraries
# that they use here. The exit code is the script's; 99 if it did not end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 2; }
script=$1
shift
suite=${SUITE:-trixie}

say() { echo "ble-vm: $*" >&2; }

"$here/qemu.sh"
image=$(SUITE=$suite "$here/image.sh")
out=${OUT:-$image/out}
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What this boot adds to the image: a second archive behind it, as the kernel allows.
added=$work/added
mkdir -p "$added"/{work,bin-here,lib-here,out}
install -m 755 "$here/inside/init" "$added/init"
install -m 644 "$here/inside/lib.sh" "$added/lib.sh"
install -m 755 "$script" "$added/script"
for file in "$@"; do
  name=$(basename "$file")
  cp -rL "$file" "$added/work/$name"
  # A program of this machine runs there with this machine's libraries, so that it does not matter whose are older.
  if [ -f "$file" ] && libraries=$(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+'); then
    mv "$added/work/$name" "$added/bin-here/$name"
    for library in $libraries; do cp -nL "$library" "$added/lib-here/"; done
    loader=$(basename "$(grep -m 1 ld-linux <<<"$libraries")")
    printf '#!/bin/sh\nexec /lib-here/%s --library-path /lib-here /bin-here/%s "$@"\n' "$loader" "$name" >"$added/work/$name"
    chmod 755 "$added/work/$name"
  fi
done
archive=$work/initrd
cp "$image/base.cpio" "$archive"
(cd "$added" && find . -print0 | "$image/root/bin/busybox" cpio -0 -o -H newc -R 0:0 2>/dev/null) >>"$archive"
truncate -s 512M "$work/disk"

case ${ACCEL:-tcg} in
  kvm) accel=(-accel kvm -cpu host) ;;
  *) accel=(-accel 'tcg,thread=multi' -cpu max) ;;
esac
# No network: what runs inside speaks with what runs inside.
timeout "${SECONDS_MAX:-170}" qemu-system-x86_64 "${accel[@]}" -smp 1 -m 1024 \
  -nodefaults -no-user-config -display none -no-reboot -serial stdio \
  -kernel "$image/vmlinuz" -initrd "$archive" -append 'console=ttyS0 quiet panic=-1 cryptomgr.notests=1' \
  -drive "file=$work/disk,format=raw,if=virtio" </dev/null 2>&1 | tr -d '\r' | tee "$out/console.log" || true
code=$(sed -n 's/^ble-vm: the script ended with \([0-9]*\).*/\1/p' "$out/console.log")
if [ -z "$code" ]; then
  say "the script did not end"
  exit 99
fi
tar -x --no-same-owner -f "$work/disk" -C "$out"
exit "$code"
