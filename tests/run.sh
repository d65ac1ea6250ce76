#!/usr/bin/env bash
# Runs every test of the project. Ends with a line "N passed, N failed" and fails if anything failed.
# Needs Rust and a C compiler, as the project itself does, and on Debian installs what else the tests need: mosquitto, a
# broker that real meshes use, Python with some packages from PyPI, for a client in another language and for another Bluetooth
# stack, and QEMU, for virtual machines with real BlueZ (x86-64 only; tests/ble-vm).
#
#   FUZZ_SECONDS=600 tests/run.sh    a longer look at bad input (2 seconds for each parser by default)
#   FUZZ_SEED=2                      other bad input (1)
#   KILLS=5000 SEEDS=100             more kills of the repository (200), more bad air (4)
#   ADVERTISEMENTS=1000000000        more bad radio (10,000,000)
#   INJECTIONS=10000 DAMAGES=100000  more violations (1,000) and more damage (3,000) that audits must find
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2

# What fails, fails again.
export FUZZ_SEED=${FUZZ_SEED:-1}

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# check NAME COMMAND…: one check; its output is shown only when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    cat "$log"
    echo "FAILED  $name"
  fi
}

# suite NAME COMMAND…: a run of cargo's test harness; each of its tests counts.
suite() {
  local name=$1
  shift
  "$@" 2>&1 | tee "$log"
  local status=$?
  local ok bad
  ok=$(awk '/^test result:/ { sum += $4 } END { print sum + 0 }' "$log")
  bad=$(awk '/^test result:/ { sum += $6 } END { print sum + 0 }' "$log")
  # A suite that fails without a failing test did not build, or was killed.
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  if [ "$ok" -eq 0 ]; then bad=$((bad + 1)); fi
  passed=$((passed + ok))
  failed=$((failed + bad))
  echo "suite   $name: $ok passed, $bad failed"
}

# install_package PACKAGE: from Debian, with some patience for its mirrors.
install_package() {
  local as_root=''
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  $as_root apt-get -o Acquire::Retries=5 update -q &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -q --no-install-recommends "$1"
}

# installed PROGRAM PACKAGE: installs a Debian package unless its program is there.
installed() {
  PATH=$PATH:/usr/sbin command -v "$1" >/dev/null && return
  install_package "$2"
}

# has_venv: Debian has this part of Python in a package of its own.
has_venv() {
  python3 -c 'import ensurepip' 2>/dev/null || install_package python3-venv
}

# counted NAME COMMAND…: a program that says how many checks passed on its last line, as this one does.
counted() {
  local name=$1
  shift
  "$@" 2>&1 | tee "$log"
  local status=$?
  local ok bad
  read -r ok bad <<<"$(tail -n 1 "$log" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')"
  if [ -z "${bad:-}" ]; then ok=0 bad=1; fi
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + ok))
  failed=$((failed + bad))
  echo "suite   $name: $ok passed, $bad failed"
}

# python_with REQUIREMENTS DIRECTORY: a Python of our own, with packages.
python_with() {
  [ -x "$2/bin/pip" ] || python3 -m venv "$2" || return
  "$2/bin/pip" install --quiet --disable-pip-version-check --retries 10 -r "$1"
}

check 'mosquitto is installed' installed mosquitto mosquitto
check 'Python is installed' installed python3 python3
check 'Python can make environments' has_venv

python=$(mktemp -d)
trap 'rm -rf "$log" "$python"' EXIT
check 'packages of the other client' python_with tests/interop/requirements.txt "$python"

# On a fresh Debian machine rustup may have come without these two components.
rustup component add rustfmt clippy >/dev/null 2>&1 || true

check 'formatting' cargo fmt --all --check
check 'lints' cargo clippy --workspace --all-targets --locked -- -D warnings
check 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked
# The daemons that the end-to-end tests start, as they are shipped.
check 'release build' cargo build --release --locked --package consent-mesh
suite 'tests' cargo test --workspace --locked --no-fail-fast
counted 'a client in another language' "$python/bin/python" tests/interop/run.py
counted 'a reader of traces in another language' "$python/bin/python" tests/interop/trace_check.py
# Virtual machines with real BlueZ, emulated controllers, and a recording of what they said.
counted 'Bluetooth' tests/ble-vm/run.sh
counted 'another Bluetooth stack' "$python/bin/python" tests/interop/ble_frames.py
# The tests have built it.
check 'every guard and effect is needed, or has a reason' "${CARGO_TARGET_DIR:-target}/debug/conform" verify --each-guard
check 'benchmarks run' cargo test --workspace --locked --bench language --bench frame --bench filter --bench audit \
  --bench mesh -- --test
check 'cargo run --release' cargo run --release --locked

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
