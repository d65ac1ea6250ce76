#!/usr/bin/env python3
"""A reader of traces, written from docs/trace-format.md alone: no line of it comes from the Rust code.

    python trace_reader.py --mesh mesh.toml [--opening FILE]… DIR…

Every directory with trace files at or below DIR is a trace. Checked are the form of every record, hashes, chain, sequence,
the order of open and close, and the signatures of checkpoints, with keys from the mesh file and, for data subjects, from
their openings. Whether the mesh file itself is to be believed is not looked at: see client.py for that.

One line per trace: device, records, how many of them are sealed, and the open tail. Exit codes: 0 no damage, 1 damage (with
the file and the offset of the record), 2 bad usage. It is for tests: small and readable rather than fast.
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib
import re
import sys
import tomllib

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_BODY, MAX_POLICY, MAX_NAME, MAX_GRAPHS = 1 << 26, 1 << 16, 128, 64
MAX_LIST, MAX_RESUME, MAX_OUTCOMES = 131_072, 4_096, 514
MAX_DEPTH = 8  # no body is as deep as this
OPEN, POLICY, STEP, CHECKPOINT, CLOSE, RESUME = range(6)
GRAPHS = {"direct-subject", "direct-controller", "indirect-subject", "repository", "indirect-controller"}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:#-]*")
LIKE_A_VALUE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9][0-9.:-]*\Z")
RESERVED = set("and by collect false for not nothing or policy to transfer true until when".split())
ZEROS = bytes(32)


class Damage(Exception):
    """The trace is not as a device writes it; `file` and `offset` say where."""

    def __init__(self, why, file=None, offset=None):
        super().__init__(why if file is None else f"{file}, offset {offset}: {why}")
        self.file, self.offset = file, offset


class Unfinished(Exception):
    """The bytes end within a record."""


def need(condition, why):
    if not condition:
        raise Damage(why)


# --- Deterministic CBOR ------------------------------------------------------------------------------------------------


def head(data, at):
    """Major type, argument, and where the head ends; only heads in their shortest form."""
    need(at < len(data), "CBOR ends early")
    major, low = data[at] >> 5, data[at] & 31
    if low < 24:
        return major, low, at + 1
    need(low < 28, "a length that is not definite")
    size = 1 << (low - 24)
    need(at + 1 + size <= len(data), "CBOR ends early")
    argument = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    need(argument >= (24 if size == 1 else 1 << (4 * size)), "a head that is not in its shortest form")
    return major, argument, at + 1 + size


def parse(data, at=0, depth=0):
    """A value, and where it ends: unsigned integers, byte strings, texts, arrays, true, false and null."""
    need(depth < MAX_DEPTH, "CBOR too deep")
    major, argument, start = head(data, at)
    if major == 0:
        return argument, start
    if major in (2, 3):
        end = start + argument
        need(end <= len(data), "CBOR ends early")
        if major == 2:
            return data[start:end], end
        try:
            return data[start:end].decode(), end
        except UnicodeDecodeError as e:
            raise Damage("text that is no UTF-8") from e
    if major == 4:
        need(argument <= len(data) - start, "CBOR ends early")
        parts = []
        for _ in range(argument):
            part, start = parse(data, start, depth + 1)
            parts.append(part)
        return parts, start
    need(major == 7 and start == at + 1 and argument in (20, 21, 22), "CBOR of a kind that no trace has")
    return {20: False, 21: True, 22: None}[argument], start


def decode(data):
    value, end = parse(data)
    need(end == len(data), "bytes after the end of a body")
    return value


# --- Forms. Each gives back by what its values sort --------------------------------------------------------------------


def uint(value, below=2**64):
    need(type(value) is int and 0 <= value < below, "no such number")
    return value


def octets(length):
    def form(value):
        need(type(value) is bytes and len(value) == length, f"no byte string of {length}")
        return value

    return form


def name(value):
    """Of the form that protocol.md gives for names of a mesh file."""
    need(type(value) is str and NAME.fullmatch(value) and len(value) <= MAX_NAME, "no name")
    need(not LIKE_A_VALUE.match(value) and value not in RESERVED, "a name that reads as something else")
    return value.encode()


def boolean(value):
    need(type(value) is bool, "neither true nor false")
    return value


def or_null(form):
    """Null sorts before everything."""
    return lambda value: (0,) if value is None else (1, form(value))


def array(*forms):
    def form(value):
        need(type(value) is list and len(value) == len(forms), f"no array of {len(forms)}")
        return tuple(form(part) for form, part in zip(forms, value))

    return form


def sorted_set(element, most=MAX_LIST):
    def form(value):
        need(type(value) is list and len(value) <= most, "no list, or too long")
        keys = [element(part) for part in value]
        need(all(a < b for a, b in zip(keys, keys[1:])), "a list that is not sorted, or repeats itself")
        return tuple(keys)

    return form


def choice(*forms):
    """An array that begins with the number of its form."""

    def form(value):
        need(type(value) is list and value and type(value[0]) is int and value[0] < len(forms), "no such kind")
        return array(uint, *forms[value[0]])(value)

    return form


digest = pseudonym = statement = octets(32)
item = array(pseudonym, name)
release = array(item, digest, uint, or_null(octets(16)))
offer = array(name, digest, or_null(statement))
own = sorted_set(digest)
offers = sorted_set(offer)


def byte(value):
    return uint(value, 256)


def location(value):
    return uint(value, 5)


def party(value):
    """A name before a connection before null."""
    if value is None:
        return (2,)
    return (0, name(value)) if type(value) is str else (1, octets(16)(value))


def elided(value):
    need(type(value) is list, "no list of elided steps")
    reasons = [array(lambda it: uint(it, 9), uint)(part) for part in value]
    need(all(a[0] < b[0] for a, b in zip(reasons, reasons[1:])), "reasons that do not ascend")
    need(all(count > 0 for _, count in reasons), "a count of zero")


def graph_names(value):
    need(type(value) is list and len(value) <= MAX_GRAPHS, "no list of graphs")
    need(all(type(it) is str and it in GRAPHS for it in value), "a graph that is not known")


def policy_bytes(value):
    need(type(value) is bytes and len(value) <= MAX_POLICY, "no policy")


def version(value):
    need(uint(value) == 1, "another version")


what = choice(
    [digest], [release], [], [octets(32), offers, offers], [digest, or_null(statement)], [digest], [release],
    [pseudonym, uint, uint],
)
message = array(party, party, what, or_null(octets(16)))
action = choice(
    [own, or_null(item)], [own, or_null(item), offers], [own], [name], [], [pseudonym], [pseudonym], [message],
    [message, or_null(octets(32)), or_null(octets(32))],
)
outcome = array(digest, or_null(byte), boolean)
remembered = array(item, party, uint, uint)


def up_to(element):
    return sorted_set(element, MAX_RESUME)


body = choice(
    [uint, uint, version, name, graph_names, uint, uint],
    [uint, uint, policy_bytes],
    [uint, uint, byte, lambda it: uint(it, 2**32), location, action, location, sorted_set(outcome, MAX_OUTCOMES)],
    [uint, uint, elided, octets(64)],
    [uint, uint, elided, octets(64), boolean],
    [uint, uint, up_to(offer), up_to(digest), up_to(digest), up_to(offer), up_to(array(party, item, digest, uint)),
     up_to(array(party, digest)), up_to(remembered), up_to(remembered), up_to(array(item, uint, uint)), up_to(name)],
)


# --- Records -----------------------------------------------------------------------------------------------------------


def record(data, at):
    """`previous`, the bytes of the body, `hash`, and where the record ends."""

    def take(count, expected=None):
        nonlocal at
        part = data[at : at + count]
        need(expected is None or expected.startswith(part), "not the form of a record")
        if len(part) < count:
            raise Unfinished
        at += count
        return part

    take(3, b"\x83\x58\x20")
    previous = take(32)
    first = take(1)[0]
    if 0x40 <= first < 0x58:
        length = first - 0x40
    else:
        need(0x58 <= first <= 0x5A, "not the form of a record")
        size = 1 << (first - 0x58)
        length = int.from_bytes(take(size), "big")
        need((24 if size == 1 else 1 << (4 * size)) <= length <= MAX_BODY, "a length that no record has")
    body = take(length)
    take(2, b"\x58\x20")
    return previous, body, take(32), at


def record_hash(previous, body):
    return hashlib.sha256(b"consent-mesh trace record" + previous + body).digest()


def has_record_after(data, at):
    """Whether a complete record with a right hash begins after `at`."""
    while (at := data.find(b"\x83\x58\x20", at + 1)) >= 0:
        try:
            previous, body, found, _ = record(data, at)
        except (Damage, Unfinished):
            continue
        if record_hash(previous, body) == found:
            return True
    return False


# --- Signatures --------------------------------------------------------------------------------------------------------

P = 2**255 - 19
ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y of a point of order 8 of edwards25519
SMALL_ORDER = {0, 1, P - 1, ORDER_8, P - ORDER_8}


def y_of(point):
    return int.from_bytes(point, "little") & (2**255 - 1)


def verify(key, signature, signed):
    """Strict: S below the group's order (OpenSSL sees to that), neither key nor R of small order."""
    need(y_of(key) < P and y_of(key) not in SMALL_ORDER, "a key that nobody may have")
    need(y_of(signature[:32]) % P not in SMALL_ORDER, "a signature of small order")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except (InvalidSignature, ValueError) as e:
        raise Damage("a signature that the device has not made") from e


def checkpoint_bytes(device, sequence, time, previous, elided, continues):
    payload = cbor2.dumps([1, device, sequence, time, previous, elided, continues])
    return cbor2.dumps(["Signature1", b"\xa1\x01\x32", b"consent-mesh trace checkpoint", payload])


def public_key(line):
    found = re.fullmatch(r"ed25519:([0-9a-f]{64})", line) if isinstance(line, str) else None
    if not found:
        raise ValueError(f"no public key: {line!r}")
    return bytes.fromhex(found[1])


def keys_of(mesh, openings=()):
    """Device → Ed25519 key. A subject is in no mesh file: her opening has the key, if she has given it away."""
    devices = tomllib.loads(pathlib.Path(mesh).read_text()).get("devices", [])
    keys = {device["name"]: public_key(device["signing_key"]) for device in devices}
    for path in openings:
        opening = json.loads(pathlib.Path(path).read_text())
        if opening.get("signing_key") is not None:
            keys[opening["device"]] = public_key(opening["signing_key"])
    return keys


# --- A trace -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Trace:
    directory: pathlib.Path
    device: str | None = None
    graphs: int = 0
    first: int = 0  # the sequence of the first record that is there
    records: int = 0
    bytes: int = 0
    sealed: int = 0  # records up to the last signed one
    sealed_bytes: int = 0
    torn: int = 0  # bytes of an unfinished record
    last: tuple | None = None  # kind, sequence, hash, continues of the last record
    has_key: bool = False

    @property
    def is_closed(self):
        return self.has_key and not self.torn and self.last is not None and (self.last[0], self.last[3]) == (CLOSE, False)

    def __str__(self):
        parts = [f"{self.directory}: {json.dumps(self.device)}", f"{self.records} records", f"{self.sealed} sealed"]
        if self.first:
            parts.append(f"begins with record {self.first}: files are missing before it")
        if not self.has_key:
            parts.append("nobody said its key, so no signature was checked")
        if self.is_closed:
            parts.append("closed")
        else:
            tail, size = self.records - self.sealed, self.bytes + self.torn - self.sealed_bytes
            parts.append(f"open: the last {tail} records and {size} bytes are not to be relied on")
        return ", ".join(parts)


def read_trace(directory, keys):
    trace = Trace(directory)
    files = sorted(it for it in directory.iterdir() if re.fullmatch(r"trace-[0-9]{8}\.cborseq", it.name))
    for file in files:
        read_file(trace, file, keys, is_last=file == files[-1])
    return trace


def read_file(trace, file, keys, is_last):
    data, at, is_first = file.read_bytes(), 0, True
    while at < len(data):
        try:
            start = at
            previous, body, found, at = record(data, start)
            need(record_hash(previous, body) == found, "a wrong hash")
            take_record(trace, previous, decode(body), found, is_first, keys)
        except Unfinished:
            if has_record_after(data, start):
                raise Damage("a length that was changed", file, start) from None
            if not is_last:
                raise Damage("a file that ends within a record, and is not the last", file, start) from None
            trace.torn = len(data) - start
            return
        except Damage as e:
            raise Damage(str(e), file, start) from e
        trace.bytes += at - start
        if trace.last[0] in (CHECKPOINT, CLOSE) and trace.has_key:
            trace.sealed, trace.sealed_bytes = trace.records, trace.bytes
        is_first = False
    if not is_last and (is_first or not is_continued(trace.last)):
        raise Damage("a file that does not end with a close that continues, and is not the last", file, len(data))


def is_continued(last):
    return last is not None and last[0] == CLOSE and last[3]


def take_record(trace, previous, value, found, is_first, keys):
    """Judges a record by what came before it."""
    body(value)
    kind, sequence, time = value[:3]
    if trace.last is None:
        need((sequence == 0) == (previous == ZEROS), "a first record with a sequence or a hash, but not both")
        trace.first = sequence
    else:
        need(previous == trace.last[2], "a record that does not follow the one before")
        need(sequence == trace.last[1] + 1, "a gap in the sequence")
        need(is_first or not is_continued(trace.last), "a record after a close that ends the file")
    if is_first or trace.last[0] == CLOSE:
        need(kind == OPEN, "no open where one must stand")
    if kind == OPEN:
        need(trace.device in (None, value[4]), "an open of another device")
        trace.device, trace.graphs, trace.has_key = value[4], len(value[5]), value[4] in keys
    if kind == STEP:
        need(value[3] < trace.graphs, "a graph that the open does not have")
    continues = value[5] if kind == CLOSE else None
    if kind in (CHECKPOINT, CLOSE) and trace.has_key:
        verify(keys[trace.device], value[4], checkpoint_bytes(trace.device, sequence, time, previous, value[3], continues))
    trace.last = (kind, sequence, found, continues)
    trace.records += 1


def traces_below(directory):
    return sorted({it.parent for it in pathlib.Path(directory).rglob("trace-????????.cborseq")})


def main():
    parser = argparse.ArgumentParser(description="Check traces of consent-mesh.")
    parser.add_argument("--mesh", required=True, help="the mesh file with the devices' keys")
    parser.add_argument("--opening", action="append", default=[], help="a subject's opening, with her key")
    parser.add_argument("directory", nargs="+")
    arguments = parser.parse_args()
    try:
        keys = keys_of(arguments.mesh, arguments.opening)
        directories = [it for directory in arguments.directory for it in traces_below(directory)]
    except (OSError, ValueError, KeyError) as e:
        parser.error(str(e))
    if not directories:
        parser.error("there is no trace")
    damaged = False
    for directory in directories:
        try:
            print(read_trace(directory, keys))
        except Damage as e:
            damaged = True
            print(f"damaged: {e}")
    sys.exit(1 if damaged else 0)


if __name__ == "__main__":
    main()
