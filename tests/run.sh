#!/usr/bin/env bash
# Runs every test of the project. Ends with a line "N passed, N failed" and fails if anything failed.
# Needs Rust and a C compiler, as the project itself does, and on Debian installs what else the tests need: mosquitto, a
# broker that real meshes use.
#
#   FUZZ_SECONDS=600 tests/run.sh    a longer look at bad input (2 seconds for each parser by default)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2

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

# installed PROGRAM PACKAGE: installs a Debian package unless its program is there.
installed() {
  PATH=$PATH:/usr/sbin command -v "$1" >/dev/null && return
  local as_root=''
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2"
}

check 'mosquitto is installed' installed mosquitto mosquitto

# On a fresh Debian machine rustup may have come without these two components.
rustup component add rustfmt clippy >/dev/null 2>&1 || true

check 'formatting' cargo fmt --all --check
check 'lints' cargo clippy --workspace --all-targets --locked -- -D warnings
check 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked
suite 'tests' cargo test --workspace --exclude conformance --locked --no-fail-fast
# Exploring models takes an optimised build.
suite 'model checker' cargo test --package conformance --release --locked --no-fail-fast
check 'every guard and effect is needed, or has a reason' cargo run --release --locked -p conformance -- verify --each-guard
check 'benchmarks run' cargo bench -p pilot-core -p mesh-runtime --locked -- --test
check 'cargo run --release' cargo run --release --locked

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
