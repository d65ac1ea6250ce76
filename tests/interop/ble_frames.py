#!/usr/bin/env python3
"""Does another Bluetooth stack (bumble) find in our advertisements what their description says is there?

    /tmp/interop/bin/python tests/interop/ble_frames.py [DIR]

Frames are built and read here from their description alone (docs/frame.md), and compared with its test vectors. Then come the frames
that daemons sent and heard over real BlueZ: DIR is what `tests/ble-vm/run.sh` has left behind (target/ble-vm/runs/trixie by default),
with btmon's recording of everything between the kernel and its controllers. One line per check; the last line counts them; exit
code 1 if one failed.
"""

import hashlib
import pathlib
import struct
import sys
import tomllib

import cbor2
from bumble import core, hci
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "target/ble-vm/runs/trixie"
COMPANY = 0xFFFF
LEGACY, EXTENDED, SIGNED = 1, 2, 3
MANUFACTURER = core.AdvertisingData.MANUFACTURER_SPECIFIC_DATA
passed = failed = 0


def check(what, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print("ok    " if holds else "FAILED", what, "" if holds else detail, flush=True)


# --- Frames, from their description ---------------------------------------------------------------------------------------


class NoFrame(Exception):
    pass


def epoch_of(seconds):
    return seconds // 64


def consent(address, tag, digest, epoch):
    """What a signed frame's signature is of."""
    return b"consent-mesh/consent/1\0" + address + tag + digest + epoch.to_bytes(8, "big")


def build(kind, tag, policy, epoch, address=None, key=None):
    digest = hashlib.sha256(policy).digest()
    frame = bytes([0x10 | kind]) + tag + digest[:16] + (epoch % 2**24).to_bytes(3, "big")
    if kind == SIGNED:
        frame += key.public_key().public_bytes_raw() + key.sign(consent(address, tag, digest, epoch))
    return frame if kind == LEGACY else frame + policy


def read(frame, address, now):
    """The parts of a frame that was heard at a time from an address, if all that it says is so."""
    if not frame or frame[0] >> 4 != 1 or frame[0] & 15 not in (LEGACY, EXTENDED, SIGNED):
        raise NoFrame("version or kind")
    kind, tag, prefix = frame[0] & 15, frame[1:5], frame[5:21]
    least = {LEGACY: 24, EXTENDED: 25, SIGNED: 121}[kind]
    if len(frame) < least or len(frame) > (24 if kind == LEGACY else 244):
        raise NoFrame("length")
    # Of all epochs that end so, the one nearest to now.
    base = epoch_of(now)
    epoch = base + (int.from_bytes(frame[21:24], "big") - base + 2**23) % 2**24 - 2**23
    if abs(epoch - base) > 2:
        raise NoFrame("not fresh")
    policy = None
    if kind != LEGACY:
        policy = frame[24 if kind == EXTENDED else 120 :]
        digest = hashlib.sha256(policy).digest()
        if digest[:16] != prefix or policy == b"\xf6":
            raise NoFrame("policy")
    if kind == SIGNED:
        try:
            Ed25519PublicKey.from_public_bytes(frame[24:56]).verify(
                frame[56:120], consent(address, tag, digest, epoch)
            )
        except (InvalidSignature, ValueError):
            raise NoFrame("signature") from None
    return kind, tag, prefix, epoch, policy


def advertisement(frame):
    structure = (MANUFACTURER, struct.pack("<H", COMPANY) + frame)
    return bytes(core.AdvertisingData([structure]))


def frames_in(data):
    """What bumble finds in advertising data under our identifier."""
    found = core.AdvertisingData.from_bytes(data).get_all(MANUFACTURER, raw=True)
    return [each[2:] for each in found if each[:2] == struct.pack("<H", COMPANY)]


# --- The test vectors -----------------------------------------------------------------------------------------------------


def vectors():
    tag, address, now = b"mall", bytes.fromhex("c0ffee123456"), 1893456000  # 2030-01-01
    policy = bytes.fromhex(
        "84016a4d41434164647265737384f5646d616c6c8175536572766963655573616765416e616c79746963731a7a432b8080"
    )
    seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, 7.1, test 1
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    head = "6d616c6c" "601ebef19405185d5b775410ab66c5b8" "c36f62"
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signature = (
        "5b4c539324c03fe78c32e41125606b522cd92b827f058c484237811855bf8736"
        "d08476302799b9c1a3beff23e050479788110e313158193525bc4b43689d2106"
    )
    wanted = {
        LEGACY: "11" + head,
        EXTENDED: "12" + head + policy.hex(),
        SIGNED: "13" + head + public + signature + policy.hex(),
    }
    for kind, name in ((LEGACY, "legacy"), (EXTENDED, "extended"), (SIGNED, "signed")):
        frame = build(kind, tag, policy, epoch_of(now), address, key)
        check(f"the {name} frame of the description is built", frame.hex() == wanted[kind], frame.hex())
        data = advertisement(frame)
        check(f"bumble finds it in an advertisement", frames_in(data) == [frame])
        check(f"and it is read again", read(frame, address, now)[:2] == (kind, tag))
    data = advertisement(build(LEGACY, tag, policy, epoch_of(now)))
    check("a legacy frame leaves three bytes of an advertisement of Bluetooth 4", len(data) == 28)
    signed = bytes.fromhex(wanted[SIGNED])
    survivors = [at for at in range(len(signed)) if reads(flip(signed, at), address, now)]
    check("a signed frame with any bit changed is refused", not survivors, str(survivors))
    check("from another address it is refused", not reads(signed, b"\0" * 6, now))
    check("five minutes later it is refused", not reads(signed, address, now + 300))
    check("a frame that is cut off is refused", not any(reads(signed[:end], address, now) for end in range(len(signed))))


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def reads(frame, address, now):
    try:
        return bool(read(frame, address, now))
    except NoFrame:
        return False


# --- What was sent over real BlueZ ----------------------------------------------------------------------------------------


def recording(path):
    """Adapter, Unix seconds and HCI packet of each record of btmon's file."""
    data = path.read_bytes()
    if data[:8] != b"btsnoop\0":
        raise SystemExit(f"{path} is no recording of btmon")
    at, packet_types = 16, {2: 1, 3: 4}  # btmon's numbers of commands and events, and HCI's
    while at + 24 <= len(data):
        _, length, flags, _, microseconds = struct.unpack(">IIIIq", data[at : at + 24])
        at += 24
        if flags & 0xFFFF in packet_types:
            seconds = microseconds // 10**6 - 62_168_256_000  # since the year 0
            yield flags >> 16, seconds, bytes([packet_types[flags & 0xFFFF]]) + data[at : at + length]
        at += length


def on_air(path):
    """(sent or heard, adapter, address, advertising data) of the emulated controllers' log."""
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    return {
        (words[1], int(words[2]), bytes.fromhex(words[4].replace(":", "")), bytes.fromhex(words[6]))
        for words in lines
        if words[1] in ("sent", "heard") and words[2] != "-" and words[6] != "-"
    }


def daemons(directory):
    adapters = [bytes.fromhex(word[:17].replace(":", "")) for word in (directory / "mesh/adapters").read_text().split()]
    mesh = tomllib.loads((directory / "mesh/mesh.toml").read_text())
    air = on_air(directory / "radio.log")
    said, heard = [], []
    for adapter, seconds, packet in recording(directory / "btmon.snoop"):
        try:
            packet = hci.HCI_Packet.from_bytes(packet)
        except Exception:  # bumble does not know every packet; what it does not know is not ours
            continue
        if isinstance(packet, (hci.HCI_LE_Set_Advertising_Data_Command, hci.HCI_LE_Set_Extended_Advertising_Data_Command)):
            data = bytes(packet.advertising_data)
            said += [(adapter, adapters[adapter], seconds, data, frame) for frame in frames_in(data)]
        if isinstance(packet, (hci.HCI_LE_Advertising_Report_Event, hci.HCI_LE_Extended_Advertising_Report_Event)):
            for report in packet.reports:
                data, address = bytes(report.data), bytes(report.address)[::-1]
                heard += [(adapter, address, seconds, data, frame) for frame in frames_in(data)]

    wrong = [frame.hex() for _, address, seconds, _, frame in said + heard if not reads(frame, address, seconds)]
    check(f"{len(said)} times a daemon had a frame sent, and each is as described", said and not wrong, str(wrong[:3]))
    check(f"{len(heard)} times one was heard, likewise", heard and not wrong, str(wrong[:3]))
    parts = [(adapter, *read(frame, address, seconds)) for adapter, address, seconds, _, frame in said if not wrong]
    kinds = {kind for _, kind, *_ in parts}
    check("there are frames of all three kinds", kinds == {LEGACY, EXTENDED, SIGNED}, str(kinds))
    check(
        "what BlueZ told the controllers is what was on air",
        {(adapter, address, data) for adapter, address, _, data, _ in said}
        >= {each[1:] for each in air if each[0] == "sent"}
        and air,
    )
    check(
        "what was heard is what was sent",
        {(address, frame) for _, address, _, _, frame in heard} <= {(address, frame) for _, address, _, _, frame in said},
    )
    tags = {bytes.fromhex(device["tag"]): device for device in mesh["devices"]}
    entities = {tags.get(tag, {}).get("entity") for _, _, tag, *_ in parts}
    check("every frame is meant for a controller of the mesh file", entities == {"mall", "bookshop"}, str(entities))
    policies = {(tag, prefix): cbor2.loads(policy) for _, _, tag, prefix, _, policy in parts if policy}
    fits = all(tags[tag]["entity"] == policy[2][1] for (tag, _), policy in policies.items())
    check("every policy in a frame names the entity of that controller", policies and fits, str(policies))
    digests = {(tag, prefix) for _, kind, tag, prefix, *_ in parts if kind == LEGACY}
    check("every policy that legacy frames name was in a frame of somebody else", digests and digests <= policies.keys())
    tampered = [
        flip(frame, len(frame) // 2)
        for _, _, _, _, frame in said
        if frame[0] & 15 != LEGACY
    ]
    lived = [frame for frame, (_, address, seconds, _, _) in zip(tampered, (s for s in said if s[4][0] & 15 != LEGACY)) if reads(frame, address, seconds)]
    check("with a byte changed, none of those that carry a policy is one", tampered and not lived)


vectors()
directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
if (directory / "btmon.snoop").exists():
    daemons(directory)
else:
    check("tests/ble-vm/run.sh has left a recording", False, str(directory))
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
