#!/usr/bin/env bash
# Daemons over real BlueZ, in virtual machines with emulated controllers. Ends with a line "N passed, N failed".
#
#   SUITES='trixie bookworm'   Debian 13 (BlueZ 5.82) and Debian 12 (5.66); `run.sh bookworm` for one of them
#   OUT=DIRECTORY              what came out of the machines: target/ble-vm/runs by default
#
# Three machines run side by side: Debian 13 with disturbances, Debian 13 with the air cut, where everything that should
# arrive must be found missing, and Debian 12. Needs what boot.sh needs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
suites=${*:-${SUITES:-trixie bookworm}}
out=${OUT:-target/ble-vm/runs}
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --locked --package consent-mesh --package consent-mesh-tests --bins
programs=${CARGO_TARGET_DIR:-target}/release

# play NAME SUITE SETTINGS…: boots a machine and plays the scenario, in the background.
play() {
  local name=$1 suite=$2
  shift 2
  mkdir -p "$work/$name"
  "$programs/ble-vm" prepare "$work/$name/mesh"
  printf '%s\n' "$@" >"$work/$name/settings"
  # A slow machine is no mistake.
  SECONDS_MAX=600 SUITE=$suite OUT=$out/$name "$here/boot.sh" "$here/scenario.sh" \
    "$work/$name/mesh" "$work/$name/settings" "$programs"/{consent-mesh,ble-radio,ble-vm} >"$out/$name.console" 2>&1 &
}

passed=0
failed=0
# judge NAME OPTION…: checks what came out.
judge() {
  local name=$1 ok=0 bad=1
  shift
  echo "$name: $(sed -n 's/.*\(bluetoothd [0-9].*\)/\1/p' "$out/$name.console" | head -n 1)"
  "$programs/ble-vm" check "$out/$name" "$@" | tee "$work/checks" | sed '$d' || true
  read -r ok bad <<<"$(tail -n 1 "$work/checks" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')"
  passed=$((passed + ${ok:-0}))
  failed=$((failed + ${bad:-1}))
  [ "${bad:-1}" -eq 0 ] || tail -n 25 "$out/$name.console"
}

both='mall-gate:alice,bob bookshop-till:carol'
# QEMU and images first: the machines share them, and apt-get works for one at a time.
"$here/qemu.sh"
for suite in $suites; do SUITE=$suite "$here/image.sh" >/dev/null; done
for suite in $suites; do
  case $suite in
    bookworm) play bookworm bookworm air=whole disturbances=none patience=60 "collected='$both'" ;;
    *)
      play "$suite" "$suite" air=whole disturbances=some patience=60 "collected='$both'"
      play "$suite-cut" "$suite" air=cut disturbances=none patience=20 "collected='$both'"
      ;;
  esac
done
wait
for suite in $suites; do
  case $suite in
    bookworm) judge bookworm --old ;;
    *)
      judge "$suite" --disturbed
      judge "$suite-cut" --cut
      ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
