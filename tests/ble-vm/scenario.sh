#!/bin/busybox sh
# Four people, two gates, a lamp (../src/ble_vm/cast.rs): who is collected by whom, what bluetoothd and adapters that come
# and go do to it, and a withdrawal. Runs in the virtual machine; what must be true of it is checked outside.
# shellcheck disable=SC1091,SC2154 # what is said elsewhere
# `settings` says whether the air is cut, whether there are disturbances, and who is to be collected how soon.
. /lib.sh
. ./settings
cp -r mesh /out/mesh
cd /out/mesh || exit

# daemon KIND NAME [OPTION…]
daemon() {
  kind=$1 name=$2
  shift 2
  RUST_LOG=info consent-mesh run "$kind" --config "config/$name.toml" "$@" >"logs/$name.log" 2>&1 &
  echo $! >"/run/$name.pid"
}

# phase NAME SECONDS QUESTION…: waits until something is so (ble-vm --help), and notes how long that took.
phase() {
  phase=$1 limit=$2 question=$3
  shift 3
  took=$(ble-vm "$question" --within "$limit" . "$@")
  say "$phase: $took"
  echo "$phase $took" >>/out/timeline
}

# collects_again NAME: the mall publishes its next policy, and everybody decides anew.
collects_again() {
  cp "config/mall-gate.$1.pilot" config/mall-gate.pilot
  consent-mesh dc-gateway reload --config config/mall-gate.toml >/dev/null
  phase "$1" 45 holds mall-gate:alice,bob
}

start_bluetooth
# shellcheck disable=SC2046 # several words
start_radio $(cat adapters) || exit
[ "$air" = whole ] || radio cut on
# shellcheck disable=SC2046
radio beacon $(cat lamp)

daemon repository registry --embedded-broker
for gate in mall-gate bookshop-till; do
  cp "config/$gate.pilot" "config/$gate.first.pilot"
  daemon dc-gateway "$gate"
done
phase published 60 lists 2
for person in alice bob carol dave; do daemon ds-gateway "$person"; done
# shellcheck disable=SC2086 # several words
phase collected "$patience" holds $collected
# A moment later: the air has to be listened to for a while to say what was not collected.
sleep 3
mkdir /out/collected
for gate in mall-gate bookshop-till; do cp -r "data/$gate" "/out/collected/$gate"; done

if [ "$disturbances" = some ]; then
  kill -9 "$bluetoothd_pid"
  sleep 3
  start_bluetoothd
  collects_again bluetoothd
  radio unplug 4
  radio unplug 0
  sleep 3
  radio plug 0
  radio plug 4
  collects_again plugs
  radio loss 30
  collects_again loss
  radio loss 0
fi

consent-mesh ds-gateway withdraw --config config/alice.toml
phase withdrawn 45 holds mall-gate:bob
# Her gateway has told bluetoothd, which may not have told the adapter yet.
sleep 2
radio mark withdrawn
sleep 4

for name in alice bob carol dave mall-gate bookshop-till registry; do
  kill "$(cat "/run/$name.pid")"
done
for name in alice bob carol dave mall-gate bookshop-till registry; do
  wait "$(cat "/run/$name.pid")"
done
for person in alice bob carol dave; do
  consent-mesh ds-gateway opening --config "config/$person.toml" >"audit/$person.opening"
done
kill "$bluetoothd_pid"
cp -r /var/lib/bluetooth /out/bluetoothd-memory
umount /var/lib/bluetooth
cp -r /var/lib/bluetooth /out/bluetoothd-disk
exit 0
