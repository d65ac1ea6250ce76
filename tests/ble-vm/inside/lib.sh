# shellcheck shell=dash disable=SC2034 # What scripts in the virtual machine share; busybox sh.
bluetoothd=/usr/libexec/bluetooth/bluetoothd

# uptime: seconds since the machine was switched on.
uptime() { read -r up _ </proc/uptime; echo "$up"; }

# say WORDS…: a line on the console.
say() { echo "[$(uptime)] $*"; }

# until_so SECONDS COMMAND…: waits until a command succeeds.
until_so() {
  limit=$(($(uptime | cut -d . -f 1) + $1))
  shift
  while [ "$(uptime | cut -d . -f 1)" -lt "$limit" ]; do
    "$@" >/dev/null 2>&1 && return
    sleep 0.5
  done
  say "waited in vain: $*"
  return 1
}

# start_bluetooth: the bus, bluetoothd, and btmon, which writes everything that controllers and kernel say to each other
# to /out/btmon.snoop. What bluetoothd remembers is in memory (a file system of its own), as it should be on a gate: it keeps
# names and addresses of passers-by.
start_bluetooth() {
  mount -t tmpfs bluetooth /var/lib/bluetooth || return
  modprobe hci_vhci || return
  mkdir -p /run/dbus
  dbus-uuidgen >/etc/machine-id
  dbus-daemon --system --fork || return
  btmon -w /out/btmon.snoop >/dev/null 2>&1 &
  start_bluetoothd
}

# start_bluetoothd: its process is $bluetoothd_pid, what it says is in /out/bluetoothd.log.
start_bluetoothd() {
  $bluetoothd -n >>/out/bluetoothd.log 2>&1 &
  bluetoothd_pid=$!
  say "bluetoothd $($bluetoothd --version), kernel $(uname -r)"
}

# start_radio ADDRESS[=legacy]…: emulated controllers, in this order hci0, hci1, …; ready when bluetoothd knows them.
start_radio() {
  ble-radio run --control /run/radio --log /out/radio.log "$@" >/out/radio.out 2>&1 &
  radio_pid=$!
  until_so 60 adapters_are $#
}

# radio WORDS…: tells the emulated controllers something: unplug 1, plug 1, loss 30, cut on, cut off, beacon ….
radio() { ble-radio tell --control /run/radio "$@"; }

# adapters: how many adapters can advertise and scan now.
adapters() {
  dbus-send --system --print-reply --dest=org.bluez / org.freedesktop.DBus.ObjectManager.GetManagedObjects 2>/dev/null |
    grep -c '"org.bluez.LEAdvertisingManager1"'
}

adapters_are() { [ "$(adapters)" -eq "$1" ]; }
