#!/usr/bin/env python3
"""Does a reader that was written from docs/trace-format.md alone believe real traces, and refuse what was tampered with?

    /tmp/interop/bin/python tests/interop/trace_check.py [BINARY | DIR]

BINARY is `consent-mesh`, which then runs its demo for some seconds (see run.py for where it is looked for). DIR is what
`consent-mesh demo --keep DIR` has left behind. One line per check; the last line counts them; exit code 1 if one failed.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import trace_reader
from trace_reader import OPEN, STEP, ZEROS, Damage

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = os.environ.get("CONSENT_MESH") or ROOT / "target/release/consent-mesh"
SECONDS, STRIDE = 8, 3  # how long the demo runs; one byte in so many is changed
NOW = 1780272000
passed = failed = 0


def check(what, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print("ok    " if holds else "FAILED", what, "" if holds else detail, flush=True)


# --- Traces in memory --------------------------------------------------------------------------------------------------


def read(files, keys):
    """What the reader says about a trace of these files: a `Trace`, or the damage."""
    with tempfile.TemporaryDirectory() as directory:
        for number, data in enumerate(files):
            (pathlib.Path(directory) / f"trace-{number:08}.cborseq").write_bytes(data)
        try:
            return trace_reader.read_trace(pathlib.Path(directory), keys)
        except Damage as e:
            return e


def refuses(what, files, keys):
    found = read(files, keys)
    check(f"refused: {what}", isinstance(found, Damage), f"was read as {found}")


def split(data):
    """The (previous, body, hash) of each record."""
    at, records = 0, []
    while at < len(data):
        *parts, at = trace_reader.record(data, at)
        records.append(parts)
    return records


def join(records):
    return b"".join(cbor2.dumps(parts) for parts in records)


def chained(bodies):
    """The records of these bodies with right hashes, as somebody without the key could make them."""
    records, previous = [], ZEROS
    for body in bodies:
        found = trace_reader.record_hash(previous, body)
        records.append((previous, body, found))
        previous = found
    return join(records)


def flip(data, at, bit=0):
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


# --- What real devices wrote -------------------------------------------------------------------------------------------


def real(directory):
    openings = sorted(directory.glob("audit/*.opening"))
    keys = trace_reader.keys_of(directory / "mesh.toml", openings)
    traces = trace_reader.traces_below(directory / "traces")
    check("the demo has left traces", len(traces) >= 5, traces)
    for path in traces:
        files = [it.read_bytes() for it in sorted(path.glob("trace-*.cborseq"))]
        trace = read(files, keys)
        check(f"{path.name}: read without damage", not isinstance(trace, Damage), trace)
        if isinstance(trace, Damage):
            continue
        if not trace.has_key:
            print(f"       {path.name}: nobody said its key; what only a signature tells is not looked at")
        is_sealed = trace.is_closed and trace.sealed == trace.records
        check(f"{path.name}: closed and sealed, if we have its key", is_sealed or not trace.has_key, trace)
        two_decoders(path.name, files)
        damages(path.name, files, keys, trace)
    name, files = next((it.name, [file.read_bytes() for file in it.glob("*.cborseq")]) for it in traces if it.name in keys)
    check(f"{name}: without its key nothing is sealed", read(files, {}).sealed == 0)
    refuses(f"{name}: somebody else's key", files, keys | {name: other_key()})
    refuses(f"{name}: a key of small order", files, keys | {name: b"\x01" + bytes(31)})
    reader = [sys.executable, ROOT / "tests/interop/trace_reader.py", "--mesh", directory / "mesh.toml"]
    run = subprocess.run([*reader, directory / "traces"], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    check("the reader prints a line per trace", run.returncode == 0 and len(lines) == len(traces), run)


def two_decoders(name, files):
    """cbor2 is somebody else's code: it must read the same in each body, and write it in the same bytes."""
    bodies = [body for data in files for _, body, _ in split(data)]
    same = all(trace_reader.decode(it) == cbor2.loads(it) and cbor2.dumps(cbor2.loads(it)) == it for it in bodies)
    check(f"{name}: another CBOR decoder agrees", same)


def damages(name, files, keys, whole):
    """Only the first file is damaged; what follows it must not matter."""
    data, rest = files[0], files[1:]
    records = split(data)
    bodies = [body for _, body, _ in records]
    changed = [at for at in range(0, len(data), STRIDE) if not notices(read([flip(data, at, at % 8), *rest], keys), whole)]
    check(f"{name}: a flipped bit in any of {len(range(0, len(data), STRIDE))} bytes is noticed", not changed, changed[:5])
    last = len(records) - 1
    for what, wrong in {
        "a record is dropped": [i for i in range(last) if accepted([join(records[:i] + records[i + 1 :]), *rest], keys)],
        "a record is dropped and the chain repaired": [
            i for i in range(last) if accepted([chained(bodies[:i] + bodies[i + 1 :]), *rest], keys)],
        "two records are swapped": [i for i in range(last) if accepted([join(swapped(records, i)), *rest], keys)],
        "two records are swapped and the chain repaired": [
            i for i in range(last) if accepted([chained(swapped(bodies, i)), *rest], keys)],
        "a record stands twice": [i for i in range(last) if accepted([join(records[: i + 1] + records[i:]), *rest], keys)],
    }.items():
        check(f"{name}: refused wherever {what}", not wrong, wrong[:5])
    cut = [at for at in range(1, len(data), STRIDE) if not notices(read([data[:at]], keys), whole)]
    check(f"{name}: cut off anywhere, it is open or refused, and less is sealed", not cut, cut[:5])
    end = len(data) - len(join(records[-1:]))
    found = read([data[:end]], keys)
    check(f"{name}: without its close, it is open", not isinstance(found, Damage) and not found.is_closed, found)
    found = read([data[: end + 40]], keys)
    check(f"{name}: with half a close, it is open", not isinstance(found, Damage) and found.torn == 40, found)
    refuses(f"{name}: with zeros after its end", [data + bytes(7)], keys)
    if whole.has_key:
        later = [rewritten(body) for body in bodies]
        refuses(f"{name}: another history with right hashes", [chained(later), *rest], keys)


def swapped(parts, i):
    return parts[:i] + [parts[i + 1], parts[i]] + parts[i + 2 :]


def accepted(files, keys):
    return not isinstance(read(files, keys), Damage)


def notices(found, whole):
    """A changed end looks like a crash: open, and with less in it that is sealed."""
    if isinstance(found, Damage):
        return True
    return not found.is_closed and found.records < whole.records and (found.sealed < whole.sealed or not whole.has_key)


def rewritten(body):
    """A step a second later."""
    value = cbor2.loads(body)
    if value[0] == STEP:
        value[2] += 1
    return cbor2.dumps(value)


def other_key():
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw()


# --- What real devices seldom write ------------------------------------------------------------------------------------


class Writer:
    """A device that records what it is told."""

    def __init__(self, device="gate"):
        self.device, self.key, self.records = device, Ed25519PrivateKey.from_private_bytes(bytes(range(64, 96))), []
        self.previous = ZEROS

    @property
    def keys(self):
        return {self.device: self.key.public_key().public_bytes_raw()}

    def add(self, kind, *rest):
        body = cbor2.dumps([kind, len(self.records), NOW, *rest])
        return self.add_bytes(body)

    def add_bytes(self, body):
        self.records.append((self.previous, body, trace_reader.record_hash(self.previous, body)))
        self.previous = self.records[-1][2]
        return self

    def open(self, graphs=("indirect-controller",)):
        return self.add(OPEN, 1, self.device, list(graphs), 1, 0)

    def step(self, action=(4,), outcomes=(), graph=0):
        return self.add(STEP, graph, 0, 0, list(action), 2, list(outcomes))

    def seal(self, *continues, elided=()):
        signed = trace_reader.checkpoint_bytes(
            self.device, len(self.records), NOW, self.previous, list(elided), *(continues or [None]))
        return self.add(3 + len(continues), list(elided), self.key.sign(signed), *continues)

    def file(self):
        """The records so far as a file; what comes next is in another."""
        data, self.done = join(self.records[getattr(self, "done", 0) :]), len(self.records)
        return data


A, B = b"\xaa" * 32, b"\xbb" * 32
ID = b"\x11" * 16
ITEM, ITEM_B = [A, "MACAddress"], [B, "MACAddress"]
RELEASE = [ITEM, A, NOW // 64, None]
EMPTY = [[]] * 10


def with_list(place, *elements):
    return [*EMPTY[:place], list(elements), *EMPTY[place + 1 :]]


def written():
    actions = {
        "init": [0, [A, B], ITEM], "init of a controller": [0, [], None],
        "init with offers": [1, [A], ITEM, [["gate", A, None], ["gate", A, B]]],
        "new policies": [2, [A]], "an entity admitted": [3, "mall"], "τ": [4], "a deadline": [5, A], "forgotten": [6, A],
        "request": [7, ["gate", ID, [0, A], ID]], "send": [7, [None, "gate", [1, RELEASE], None]],
        "requestPolicies": [7, ["alice", "registry", [2], ID]],
        "downloadPolicies": [8, ["registry", "alice", [3, A, [["gate", A, B]], []], ID], A, None],
        "uploadPolicy": [7, ["gate", "registry", [4, A, None], ID]], "withdrawPolicy": [7, ["gate", "registry", [5, A], ID]],
        "broadcast": [8, [None, "gate", [6, [ITEM, A, 1, ID]], None], None, B],
        "withdraw": [8, [ID, "gate", [7, A, 1, NOW], ID], None, None],
    }
    for name, action in actions.items():
        writer = Writer().open().step(action).seal(False)
        found = read([writer.file()], writer.keys)
        check(f"believed: {name}", not isinstance(found, Damage) and found.is_closed, found)
    full = [
        [["gate", A, None]], [A], [B], [["gate", A, B]],
        [["shop", ITEM, A, 1], [ID, ITEM, A, 1], [None, ITEM, A, 1]], [[None, A]],
        [[ITEM, "shop", 1, NOW]], [[ITEM, None, 1, NOW]], [[ITEM, 1, NOW], [ITEM_B, 0, NOW]], ["mall", "shop"],
    ]
    policy = cbor2.dumps([1, "MACAddress", [True, "mall", [], NOW], []])
    writer = Writer().open().add(5, *full).add(5, *EMPTY).add(1, policy).step(outcomes=[[A, None, False], [A, 0, True]])
    writer.seal(elided=[[0, 5], [8, 1]]).step().seal(False).open().seal(True)
    first = writer.file()
    second = writer.open().step().seal(elided=[[3, 2]]).step().file()
    found = read([first, second], writer.keys)
    check("believed: a run that resumes, stops, and goes on in another file", not isinstance(found, Damage), found)
    if not isinstance(found, Damage):
        check("its open tail is one record", (found.records, found.sealed, found.is_closed) == (14, 13, False), found)
    check("believed: a later file alone, which is not from the beginning", read([second], writer.keys).first == 10)
    check("believed: an empty file after one that continues", accepted([first, b""], writer.keys))
    refuses("a file that ends within a record, before another", [first[:-1], second], writer.keys)
    refuses("a file left out", [first, writer.open().file()], writer.keys)
    refuses("files in another order", [second, first], writer.keys)
    wrong_forms()
    wrong_order()


def wrong_forms():
    long = b"\x89\x02\x01\x1a" + NOW.to_bytes(4, "big")
    for name, body in {
        "a head that is too long": long + bytes.fromhex("1800" "00" "03" "8104" "02" "80"),
        "an indefinite length": long + bytes.fromhex("00" "00" "03" "9f04ff" "02" "80"),
        "a tag": long + bytes.fromhex("00" "00" "03" "c18104" "02" "80"),
        "floating point": long + bytes.fromhex("00" "00" "f94200" "8104" "02" "80"),
        "undefined in place of null": long + bytes.fromhex("00" "00" "03" "8300" "80f7" "02" "80"),
        "bytes after the body": long + bytes.fromhex("00" "00" "03" "8104" "02" "80" "00"),
        "a body that ends early": long + bytes.fromhex("00" "00" "03" "8104" "02"),
        "very deep arrays": b"\x81" * 100_000,
        "an array longer than its body": b"\x9b" + b"\xff" * 8,
        "no body": b"",
    }.items():
        writer = Writer().open().add_bytes(body)
        refuses(name, [writer.file()], writer.keys)
    for name, rest in {
        "an unknown kind": (6,), "a kind that is true": (True,), "a step without outcomes": (2, 0, 0, 0, [4], 2),
        "a location that is not there": (2, 0, 0, 5, [4], 2, []), "an unknown action": (2, 0, 0, 0, [9], 2, []),
        "an instance of 33 bits": (2, 0, 2**32, 0, [4], 2, []), "a negative number": (2, 0, -1, 0, [4], 2, []),
        "digests that are not sorted": (2, 0, 0, 0, [2, [B, A]], 2, []), "a digest twice": (2, 0, 0, 0, [2, [A, A]], 2, []),
        "a digest of 31 bytes": (2, 0, 0, 0, [5, A[1:]], 2, []),
        "an unknown message": (2, 0, 0, 0, [7, [None, None, [8], None]], 2, []),
        "a name that is empty": (2, 0, 0, 0, [3, ""], 2, []), "a name of 129 bytes": (2, 0, 0, 0, [3, "x" * 129], 2, []),
        "a name with a space": (2, 0, 0, 0, [3, "a b"], 2, []), "a name that is a date": (2, 0, 0, 0, [3, "2026-01-01"], 2, []),
        "a rule 256": (2, 0, 0, 0, [4], 2, [[A, 256, True]]),
        "outcomes that are not sorted": (2, 0, 0, 0, [4], 2, [[A, 0, True], [A, None, True]]),
        "a policy that is too large": (1, bytes(65_537)), "another version": (0, 2, "gate", [], 1, 0),
        "an unknown graph": (0, 1, "gate", ["clock"], 1, 0), "an unknown reason": (3, [[9, 1]], bytes(64)),
        "reasons that do not ascend": (3, [[1, 1], [0, 1]], bytes(64)), "a count of zero": (3, [[1, 0]], bytes(64)),
        "a party null before a name": (5, *with_list(5, [None, A], ["shop", A])),
        "a connection before a name": (5, *with_list(5, [ID, A], ["shop", A])),
        "an offer signed before unsigned": (5, *with_list(0, ["gate", A, B], ["gate", A, None])),
        "names that are not sorted": (5, *with_list(9, "b", "a")), "a resume with nine lists": (5, *EMPTY[1:]),
        "a list of 4,097": (5, *with_list(1, *(it.to_bytes(32, "big") for it in range(4_097)))),
    }.items():
        # Without keys, for only the form matters here.
        refuses(name, [Writer().open().add(*rest).file()], {})


def wrong_order():
    for name, writer in {
        "a trace that begins with a step": Writer().step(),
        "a step after a close": Writer().open().seal(False).step(),
        "an open after a close that ends the file": Writer().open().seal(True).open(),
        "a graph beyond the list": Writer().open().step(graph=1),
        "a checkpoint with another time": retimed(),
    }.items():
        refuses(name, [writer.file()], writer.keys)
    writer = Writer().open().seal(False)
    writer.device = "other"
    refuses("an open of another device", [writer.open().file()], {**writer.keys, **Writer().keys})
    writer = Writer().open().seal(False)
    refuses("a file after a close that does not continue", [writer.file(), writer.open().file()], writer.keys)
    writer = Writer().open().step().step().step().seal(False)
    data, step = writer.file(), len(join(writer.records[:2]))
    # The length of a record in the middle says that the file ends within it.
    refuses("a length that was changed", [data[: step + 35] + b"\x5a\x00\x10\x00\x00" + data[step + 36 :]], writer.keys)


def retimed():
    writer = Writer().open()
    body = cbor2.loads(writer.seal(False).records.pop()[1])
    writer.previous = writer.records[-1][2]
    body[2] += 1
    return writer.add_bytes(cbor2.dumps(body))


def example():
    """The record that the document takes apart."""
    document = (ROOT / "docs/trace-format.md").read_text()
    line = re.search(r"^83 5820 00…00  (4f.*?)  5820 \(hash\)$", document, re.M)
    body = bytes.fromhex(line[1])[1:]
    value = trace_reader.decode(body)
    trace_reader.body(value)
    check("the document's example is τ from s₃ to s₂", value == [2, 0, NOW, 0, 0, 3, [4], 2, []], value)


def main():
    given = pathlib.Path((sys.argv[1:] or [DEFAULT])[0]).resolve()
    example()
    written()
    if given.is_dir():
        real(given)
    else:
        with tempfile.TemporaryDirectory() as directory:
            kept = pathlib.Path(directory) / "demo"
            run = subprocess.run([given, "demo", "--seconds", str(SECONDS), "--keep", kept], capture_output=True, text=True)
            check("the demo runs", run.returncode == 0, run.stderr)
            real(kept)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
