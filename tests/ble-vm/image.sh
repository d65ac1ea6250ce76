#!/usr/bin/env bash
# Makes the kernel and the root file system of the virtual machine from Debian packages, once; prints where they are.
#
#   SUITE=trixie      the Debian release of the kernel and of BlueZ: trixie (5.82) or bookworm (5.66)
#   CACHE=DIRECTORY   where packages and images are kept: target/ble-vm by default
#   MIRROR=URL        where Debian is; by default wherever this machine's apt gets it from
#
# Packages are unpacked, never installed: no maintainer script runs, and the machine's own packages are left alone. Needs no
# root. What was downloaded stays, and the image is made again only if this file has changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=${SUITE:-trixie}
cache=${CACHE:-$here/../../target/ble-vm}/$suite
recipe=$(sha256sum "$here/image.sh" | cut -c 1-16)

packages='busybox-static dbus-daemon dbus-bin bluez bluez-test-tools kmod libc6'
# Controllers that are files (vhci), what bluetoothd loads, and the disk that carries results out.
modules='hci_vhci bluetooth rfcomm bnep hidp algif_hash algif_skcipher cmac ecb virtio_pci virtio_blk'
# What packages need to be installed, and nothing needs that runs here.
unneeded='^(perl|libperl|debconf|dpkg|passwd|login|adduser|tar|libdb5|libpam|udev|libgdbm|libsemanage|libsepol|tzdata|media-types)'

say() { echo "ble-vm: $*" >&2; }

[ "$(uname -m)" = x86_64 ] || { say "the machine inside is x86-64, and this one is not"; exit 2; }
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
if [ "$(cat "$cache/recipe" 2>/dev/null)" = "$recipe" ]; then
  echo "$cache"
  exit
fi

# mirror_of RELEASE: where this machine's apt gets a release from.
mirror_of() {
  apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)/dists/$1/InRelease'.*|\1|p" | head -n 1
}

# A state of apt's own for the release of the image, in the cache; settings such as a proxy are the machine's.
apt=$cache/apt
mkdir -p "$apt"/lists/partial "$apt"/archives/partial
: >"$apt/status"
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=${MIRROR:-$(mirror_of "$release")}
[ -n "$mirror" ] || { say "apt's configuration names no mirror of Debian: set MIRROR"; exit 2; }
security=$(mirror_of "$release-security")
signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
{
  echo "deb $signed $mirror $suite main"
  if [ -n "$security" ]; then echo "deb $signed $security $suite-security main"; fi
} >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives"; Acquire::Retries "5";
Debug::NoLocking "1"; Acquire::Languages "none";
APT::Sandbox::User ""; APT::Architecture "amd64"; APT::Architectures { "amd64"; };
CONF

log=$cache/apt.log
failed() { tail -n 20 "$log" >&2; say "cannot get the packages of $suite ($log)"; exit 2; }
say "$suite: packages from $mirror"
apt-get -c "$apt/apt.conf" update >"$log" 2>&1 || failed
kernel=$(apt-cache -c "$apt/apt.conf" depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
# shellcheck disable=SC2086 # several words
apt-get -c "$apt/apt.conf" -y --no-install-recommends --download-only install $packages >>"$log" 2>&1 || failed
# The kernel alone: its dependencies are for making an initramfs.
(cd "$apt/archives" && apt-get -c "$apt/apt.conf" download "$kernel" >>"$log" 2>&1) || failed

say "$suite: unpacking"
rm -rf "$cache/recipe" "$cache/root" "$cache/kernel"
root=$cache/root
mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$cache/kernel"
# Bookworm's packages still have files in /bin and /lib.
for directory in bin sbin lib lib64; do ln -s "usr/$directory" "$root/$directory"; done
for package in "$apt"/archives/*.deb; do
  name=${package##*/}
  into=$root
  if [[ $name =~ $unneeded ]]; then continue; fi
  if [[ $name == linux-image-* ]]; then
    [[ $name == "${kernel}_"* ]] || continue # of an earlier download
    into=$cache/kernel
  fi
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$into"
done
rm -rf "$root"/usr/share/{doc,man,locale,info,lintian,zsh,bash-completion,bug}
# Nobody starts services on demand here: who is not running is not there.
rm -rf "$root"/usr/share/dbus-1/system-services
rm -rf "$root"/usr/lib/x86_64-linux-gnu/{engines-3,ossl-modules,perl*,gconv}

# inside PROGRAM…: a program of the image with the image's libraries, without being in the image.
inside() {
  "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" --argv0 "$1" "$root/usr/bin/kmod" "${@:2}"
}

# Of the kernel's modules those that are needed, and what they need.
version=$(basename "$cache"/kernel/boot/vmlinuz-*)
version=${version#vmlinuz-}
[ -e "$cache/kernel/lib" ] || ln -s usr/lib "$cache/kernel/lib"
inside depmod -b "$cache/kernel" "$version"
target=$root/usr/lib/modules/$version
mkdir -p "$target"
for module in $modules; do
  inside modprobe -d "$cache/kernel" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
  below=${file#*"/modules/$version/"}
  install -D -m 644 "$file" "$target/$below"
done
cp "$cache/kernel/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$target/"
inside depmod -b "$root" "$version"
mv "$cache/kernel/boot/vmlinuz-$version" "$cache/vmlinuz"
rm -rf "$cache/kernel"

mkdir -p "$root"/{proc,sys,dev,run,tmp,root,out,opt/busybox,var/lib/bluetooth,var/lib/dbus}
[ -e "$root/var/run" ] || ln -s /run "$root/var/run"
[ -e "$root/bin/sh" ] || ln -s busybox "$root/bin/sh"
cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/root:/bin/sh
messagebus:x:100:100::/nonexistent:/bin/false
PASSWD
printf '%s\n' root:x:0: messagebus:x:100: bluetooth:x:101: lp:x:7: netdev:x:102: >"$root/etc/group"
printf 'passwd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
(cd "$root" && find . -print0 | ./bin/busybox cpio -0 -o -H newc -R 0:0 2>/dev/null) >"$cache/base.cpio"
echo "$recipe" >"$cache/recipe"
say "$suite: kernel $version, $(du -m "$cache/base.cpio" | cut -f 1) MiB"
echo "$cache"
