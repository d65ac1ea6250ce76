#!/usr/bin/env python3
"""Does a client that was written from docs/protocol.md alone understand a real repository, and the other way round?

    python3 -m venv /tmp/interop && /tmp/interop/bin/pip install -r tests/interop/requirements.txt
    cargo build --release
    /tmp/interop/bin/python tests/interop/run.py [BINARY]

BINARY is `consent-mesh`: the argument, else the environment variable CONSENT_MESH, else target/release/consent-mesh.
Needs Python 3.11. One line per check; the last line counts them; exit code 1 if one failed.
"""

import contextlib
import hashlib
import os
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import client
from client import (BAD_STATEMENT, CHANGED, FETCH, MALFORMED, NOT_ALLOWED, NOT_HIGHER, POLICIES, REFUSED, UPLOAD, UPLOADED,
                    WITHDRAW, WITHDRAWN, Envelope, Keys, Mesh, Peer, Refused, Statement, encode, message, rule)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = os.environ.get("CONSENT_MESH") or ROOT / "target/release/consent-mesh"
BINARY = pathlib.Path((sys.argv[1:] or [DEFAULT])[0]).resolve()
passed = failed = 0


def check(what, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print("ok    " if holds else "FAILED", what, "" if holds else detail, flush=True)


def equal(what, found, expected):
    short = lambda it: (it.hex() if isinstance(it, bytes) else str(it))[:400]
    check(what, found == expected, f"\n    found    {short(found)}\n    expected {short(expected)}")


def refuses(what, function, *arguments):
    try:
        function(*arguments)
        check(f"we refuse {what}", False, "was accepted")
    except Refused:
        check(f"we refuse {what}", True)


@contextlib.contextmanager
def section(what):
    """What goes wrong in one part is a failure, and the others are still looked at."""
    try:
        yield
    except Exception as e:
        traceback.print_exc()
        check(what, False, f"{type(e).__name__}: {e}")


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# --- The vectors of the document ---------------------------------------------------------------------------------------

NOW = 1780272000


def blocks(kind):
    document = (ROOT / "docs/protocol.md").read_text()
    return {name: body for name, body in re.findall(rf"^```{kind} (\S+)\n(.*?)^```", document, re.M | re.S)}


def count_up(first):
    return bytes(range(first, first + 32))


def vectors(directory):
    hexes = {name: bytes.fromhex(re.sub(r";.*", "", body)) for name, body in blocks("hex").items()}
    unused = set(hexes)

    def vector(name):
        unused.discard(name)
        return hexes[name]

    def same(name, found):
        equal(f"vector {name}", found, vector(name))

    operator, gate = Keys(count_up(0x00)), Keys(count_up(0x40), count_up(0x60))
    library, subject, owner = Keys(count_up(0x80), count_up(0xA0)), Keys(count_up(0xC0)), Keys(count_up(0xE0))
    public = "ed25519:" + operator.verify_key.hex()

    texts, toml = blocks("text"), blocks("toml")
    file, signature = toml["mesh.toml"].encode(), texts["mesh.toml.sig"].encode()
    mesh = Mesh(file, signature, public, NOW)
    check("vector mesh.toml: the operator's signature verifies", True)
    made = "ed25519-signature:" + operator.sign(client.signed_bytes(client.MESH_FILE, file)).hex() + "\n"
    equal("vector mesh.toml.sig", made.encode(), signature)
    other = b"ed25519-signature:" + b"00" * 64 + b"\n"
    equal("two signatures, one of them good", Mesh(file, other + signature, public, NOW).serial, 7)
    refuses("a mesh file with a changed byte", Mesh, file.replace(b"serial = 7", b"serial = 8"), signature, public, NOW)
    refuses("a mesh file of another operator", Mesh, file, signature, "ed25519:" + gate.verify_key.hex(), NOW)
    refuses("a mesh file with a lower serial", Mesh, file, signature, public, NOW, 8)
    refuses("an expired mesh file", Mesh, file, signature, public, mesh.expires)
    entry, repository = mesh.devices["mall-gate#basic"], mesh.devices["library"]
    equal("the keys of the gate", (entry.verify_key, entry.seal_key), (gate.verify_key, gate.seal_key))
    equal("the keys of the library", (repository.verify_key, repository.seal_key), (library.verify_key, library.seal_key))
    parsed = Keys.parse(texts["gate.key"])
    equal("vector gate.key", (parsed.verify_key, parsed.seal_key), (gate.verify_key, gate.seal_key))
    refuses("a key file without its last line feed", Keys.parse, texts["gate.key"][:-1])
    reply = client.reply_topic(subject.verify_key)
    equal("vector topics", "\n".join([repository.topic, reply, repository.changes]) + "\n", texts["topics"])

    basic = client.policy("MACAddress", rule("mall", ["analytics"], 1798761600))
    same("policy", basic)
    same("policy-digest", hashlib.sha256(basic).digest())
    adult = [0, [0, "age"], ">=", [1, 18_000_000]]
    member = [0, [0, "member"], "=", [3, True]]
    early = [0, [5, "hour", [0, "moment"]], "<", [1, 20_000_000]]
    before = [0, [0, "moment"], "<", [4, 1798135200]]
    condition = [2, [3, adult, member], [1, [0, [0, "town"], "=", [2, "Lyon"]]]]
    transfers = [rule("shop", ["ads"], 1796083200, it) for it in (before, early)]
    rich = client.policy("MACAddress", rule("mall", ["analytics", "ads"], 1798761600, condition), transfers)
    same("policy-conditions", rich)
    client.open_policy(rich, mesh.vocabulary)
    refuses("transfer rules in another order", client.open_policy,
            encode([1, "MACAddress", rule("mall", [], 1), transfers]), mesh.vocabulary)
    words = re.search(r"^\[vocabulary.*?(?=^\[\[devices)", toml["mesh.toml"], re.M | re.S)[0]
    (directory / "vocabulary.toml").write_text(words.replace("[vocabulary.", "["))
    for name, expected in (("policy", basic), ("policy-conditions", rich)):
        (directory / "it.pilot").write_text(blocks("pilot")[name])
        shown = tool("policy", "show", directory / "it.pilot", "--as", "cbor")
        equal(f"the tool writes {name} in the same bytes", shown, expected)
    (directory / "rich.cbor").write_bytes(rich)
    shown = tool("policy", "show", directory / "rich.cbor").decode()
    for it in (condition, early, before):
        check(f"the tool shows: when {client.condition_text(it)}", f"when {client.condition_text(it)}\n" in shown, shown)

    stated = client.statement(gate, entry.name, "gates", 3, basic, NOW - 60, NOW + 30 * 86400)
    same("statement", stated)
    same("statement-id", client.statement_id(stated))
    same("statement-signed-bytes", client.signed_bytes(client.STATEMENT, client.split1(stated)[0]))
    same("statement-withdrawal", client.statement(gate, entry.name, "gates", 4, None, NOW - 60, NOW + 30 * 86400))
    equal("the statement is believed", Statement(stated, mesh, NOW).policy_bytes, basic)
    wrong = [i for i in range(len(stated)) if believed(flip(stated, i), mesh)]
    equal("a statement with one changed byte is not, whichever it is", wrong, [])
    refuses("an expired statement", Statement, stated, mesh, NOW + 30 * 86400)

    one, two, three, four = (bytes([it]) * 16 for it in (0x11, 0x22, 0x33, 0x44))
    upload, fetch = message(UPLOAD, stated), message(FETCH, 0)
    policies, changed = message(POLICIES, two, 0, 500, 501, [stated]), message(CHANGED, 501)
    sealed = vector("sealed-notice")
    withdraw = message(WITHDRAW, sealed)
    for name, it in {
        "upload": upload, "uploaded": message(UPLOADED, one, 3, 500), "fetch": fetch, "policies": policies,
        "changed": changed, "withdraw": withdraw, "withdrawn": message(WITHDRAWN, three),
        **{f"refused-{reason}": message(REFUSED, one, reason, {3: 7, 4: 5}.get(reason, 0)) for reason in range(7)},
    }.items():
        same(f"message-{name}", it)
        client.open_message(it)

    key = subject.verify_key
    for name, topic, receiver, it in (
        ("upload", repository.topic, "library", client.envelope(
            gate, entry.name, "library", repository.topic, one, NOW, upload, b"\x55" * 32)),
        ("fetch", repository.topic, "library", client.envelope(subject, key, "library", repository.topic, two, NOW, fetch)),
        ("policies", reply, key, client.envelope(library, "library", key, reply, four, NOW, policies)),
        ("changed", repository.changes, None, client.envelope(
            library, "library", None, repository.changes, four, NOW, changed)),
        ("withdraw", entry.topic, entry.name, client.envelope(subject, key, entry.name, entry.topic, three, NOW, withdraw)),
    ):
        same(f"envelope-{name}", it)
        Envelope(it, topic, receiver, mesh, NOW)
        Envelope(it, topic, receiver, mesh, NOW + 120)
        refuses(f"envelope-{name} when it is stale", Envelope, it, topic, receiver, mesh, NOW + 121)
        refuses(f"envelope-{name} on another topic", Envelope, it, topic + "0", receiver, mesh, NOW)
        refuses(f"envelope-{name} to another receiver", Envelope, it, topic, "mall", mesh, NOW)
        refuses(f"envelope-{name} with a changed signature", Envelope, flip(it, len(it) - 40), topic, receiver, mesh, NOW)
    anonymous = client.envelope(subject, key, key, reply, four, NOW, policies)
    refuses("an anonymous answer", Envelope, anonymous, reply, key, mesh, NOW)

    item, epoch, until = bytes.fromhex("c0ffee123456"), NOW // 64, 1798761600
    signed = client.notice_signed_bytes(entry.tag, item, epoch, until)
    same("notice-signed-bytes", signed)
    same("notice-signature", owner.sign(signed))
    expected = (item, epoch, until, owner.verify_key)
    equal("vector sealed-notice opens, and its signature verifies", client.open_notice(entry, gate, sealed), expected)
    refuses("a sealed notice with a changed byte", client.open_notice, entry, gate, flip(sealed, 100))
    refuses("a sealed notice for another tag", client.open_notice, repository, gate, sealed)
    ours = client.seal_notice(entry, item, epoch, until, owner)
    equal("a notice that we seal opens", client.open_notice(entry, gate, ours), expected)
    ours = client.seal_notice(entry, item, epoch, until)
    equal("an unsigned one, too", client.open_notice(entry, gate, ours), (*expected[:3], None))
    equal("no vector is left", unused, set())


def believed(data, mesh):
    try:
        return Statement(data, mesh, NOW)
    except Refused:
        return None


# --- A real repository -------------------------------------------------------------------------------------------------

PURPOSES = [f"purpose-{it:03}-{'x' * 90}" for it in range(250)]
CONTROLLERS = {"gate": "gates", "other": "shop", "big-1": "mall", "big-2": "mall", "big-3": "mall", "gone": "mall"}
VOCABULARY = f"""
[entities]
mall = []
gates = ["mall"]
shop = []
[datatypes]
MACAddress = []
[purposes]
ads = []
analytics = []
{chr(10).join(f'"{it}" = []' for it in PURPOSES)}
[attributes]
age = "number"
place = "string"
"""


def tool(*arguments):
    run = subprocess.run([BINARY, *map(str, arguments)], capture_output=True)
    if run.returncode:
        raise RuntimeError(f"{arguments}: {run.stderr.decode()}")
    return run.stdout


def make_mesh(directory):
    """Keys, mesh file and configuration by the tool; the operator's public key and everybody's keys."""
    path, mesh = directory / "vocabulary.toml", directory / "mesh.toml"
    path.write_text(VOCABULARY)
    operator = tool("keys", "new", directory / "operator.key").decode().split()[0]
    tool("mesh", "new", mesh, "--vocabulary", path)
    for device, entity in {**CONTROLLERS, "registry": "mall", "second": "mall"}.items():
        public = tool("keys", "new", directory / f"{device}.key").decode().split()
        role = "controller" if device in CONTROLLERS else "repository"
        tool("mesh", "add", mesh, "--device", device, "--role", role, "--entity", entity, "--keys", *public)
    tool("mesh", "revoke", mesh, "--device", "gone")
    tool("mesh", "sign", mesh, "--key", directory / "operator.key")
    for device in ("registry", "second"):
        (directory / f"{device}.toml").write_text(
            f'device = "{device}"\nkeys = "{device}.key"\ndata = "data-{device}"\n'
            f'[mesh]\nfile = "mesh.toml"\noperator = "{operator}"\n'
        )
    return operator, {it: Keys.read(directory / f"{it}.key") for it in [*CONTROLLERS, "registry", "second"]}


@contextlib.contextmanager
def repository(directory, port, *options, device="registry"):
    with open(directory / "log", "ab") as log:
        command = [BINARY, "run", "repository", "--config", directory / f"{device}.toml", *options]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if process.poll() is not None:
                    raise RuntimeError((directory / "log").read_text())
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def conversations(port, mesh, keys):
    registry = mesh.devices["registry"]
    now = int(time.time())
    month = now + 30 * 86400
    offer = client.policy("MACAddress", rule("mall", ["analytics"], month),
                          [rule("shop", ["ads"], month, [0, [0, "age"], ">=", [1, 18_000_000]])])

    def stated(version, content=offer, device="gate", signer=None, entity=None, issued=now - 60, expires=month):
        entity = entity or CONTROLLERS[device]
        return client.statement(keys[signer or device], device, entity, version, content, issued, expires)

    with Peer(port, mesh, "gate", keys["gate"]) as gate, Peer(port, mesh, listen=[registry.changes]) as alice:

        def uploads(data, who=gate):
            return who.ask(registry, message(UPLOAD, data))

        def refused(what, data, reason, detail=0, who=gate):
            equal(f"refused ({reason}): {what}", uploads(data, who), (REFUSED, [reason, detail]))

        def change(revision):
            end = time.monotonic() + 5
            while (left := end - time.monotonic()) > 0:
                if alice.next(left, registry) == (CHANGED, [revision]):
                    return True
            return False

        with section("uploading"):
            equal("an empty repository has nothing", alice.download(registry), ([], 0, 1, 0))
            first = stated(5)
            equal("upload of version 5 is acknowledged", uploads(first), (UPLOADED, [5, 1]))
            check("a change notice says revision 1", change(1))
            equal("the identical statement is acknowledged again", uploads(first), (UPLOADED, [5, 1]))
            found, head, _, left_out = alice.download(registry)
            equal("a subject downloads it, byte by byte", [it.data for it in found], [first])
            equal("its policy is ours", found[0].policy_bytes, offer)
            equal("nothing else came", (head, left_out), (1, 0))
            refused("version 4 after 5", stated(4), NOT_HIGHER, 5)
            refused("version 5, saying something else", stated(5, issued=now - 50), NOT_HIGHER, 5)
            refused("a withdrawal of version 5", stated(5, None), NOT_HIGHER, 5)
            equal("version 6 is acknowledged", uploads(stated(6)), (UPLOADED, [6, 2]))
            equal("a subject who has 1 gets version 6", [it.version for it in alice.download(registry, 1)[0]], [6])
            gone = stated(7, None)
            equal("the withdrawal is acknowledged", uploads(gone), (UPLOADED, [7, 3]))
            equal("and handed out instead of the policy", [it.data for it in alice.download(registry)[0]], [gone])
            refused("an old policy after the withdrawal", first, NOT_HIGHER, 7)
            refused("version 7 after the withdrawal", stated(7), NOT_HIGHER, 7)
            top = stated(2**64 - 1, device="other")
            with Peer(port, mesh, "other", keys["other"]) as other:
                refused("shop speaks for mall", top, BAD_STATEMENT, who=other)
                highest = stated(2**64 - 1, client.policy("MACAddress", rule("shop", [], month)), "other")
                equal("the highest version is acknowledged", uploads(highest, other), (UPLOADED, [2**64 - 1, 4]))

        with section("statements that are not to be believed"):
            refused("signed by another device's key", stated(8, signer="other"), BAD_STATEMENT)
            for at in (0, 10, 30, len(first) - 1):
                refused(f"byte {at} changed", flip(stated(8), at), BAD_STATEMENT)
            refused("a byte after the end", stated(8) + b"\0", BAD_STATEMENT)
            refused("no statement at all", b"", BAD_STATEMENT)
            refused("another entity", stated(8, entity="mall"), BAD_STATEMENT)
            refused("an entity that is none", stated(8, entity="nobody"), BAD_STATEMENT)
            refused("expired", stated(8, expires=now - 1), BAD_STATEMENT)
            refused("expires before it is issued", stated(8, issued=month + 1), BAD_STATEMENT)
            refused("issued in the future", stated(8, issued=now + 300), BAD_STATEMENT)
            collection = rule("mall", ["ads", "analytics"], month)
            for what, it in {
                "the empty policy": None,
                "policy form 2": [2, "MACAddress", collection, []],
                "an unknown datatype": [1, "address", collection, []],
                "an unknown purpose": [1, "MACAddress", rule("mall", ["spam"], month), []],
                "an unknown entity": [1, "MACAddress", rule("nobody", [], month), []],
                "purposes in another order": [1, "MACAddress", [True, "mall", ["analytics", "ads"], month], []],
                "a purpose twice": [1, "MACAddress", [True, "mall", ["ads", "ads"], month], []],
                "transfers in another order": [1, "MACAddress", collection, [rule("shop", [], 2), rule("shop", [], 1)]],
                "a transfer rule twice": [1, "MACAddress", collection, [rule("shop", [], 2)] * 2],
                "an unknown attribute": [1, "MACAddress", rule("mall", [], month, [0, [0, "size"], "=", [1, 1]]), []],
                "kinds that differ": [1, "MACAddress", rule("mall", [], month, [0, [0, "age"], "=", [3, True]]), []],
            }.items():
                refused(what, stated(8, encode(it)), BAD_STATEMENT)
            refused("a number in a longer form", stated(8, offer.replace(b"\x84\x01", b"\x84\x18\x01", 1)), BAD_STATEMENT)
            payload = encode([2, "gate", "gates", 8, offer, now, month])
            refused("statement form 2", client.sign1(keys["gate"], client.STATEMENT, payload), BAD_STATEMENT)
            payload = client.split1(stated(8))[0]
            refused("signed as an envelope", client.sign1(keys["gate"], client.ENVELOPE, payload), BAD_STATEMENT)
            registered = client.statement(keys["registry"], "registry", "mall", 1, None, now, month)
            # The document does not say which reason comes first.
            answer = uploads(registered)
            holds = answer[0] == REFUSED and answer[1] in ([NOT_ALLOWED, 0], [BAD_STATEMENT, 0])
            check("refused (1 or 2): the statement of a repository", holds, answer)

        equal("every envelope that came so far opened", gate.ignored + alice.ignored, [])

        with section("who may do what"):
            refused("the statement of another device", stated(1, None, "big-1"), NOT_ALLOWED)
            refused("an anonymous upload", stated(8), NOT_ALLOWED, who=alice)
            item = bytes.fromhex("c0ffee123456")
            notice = client.seal_notice(mesh.devices["gate"], item, now // 64, month)
            answer = alice.ask(registry, message(WITHDRAW, notice))
            equal("a repository takes no withdraw notices", answer, (REFUSED, [MALFORMED, 0]))
            found, head, _, _ = gate.download(registry)
            equal("a device downloads, answered on its own topic", ([it.version for it in found], head), ([7, 2**64 - 1], 4))
            fetch = message(FETCH, 1000)
            equal("fetch beyond the head", alice.ask(registry, fetch)[1][2], 4)
            id = secrets.token_bytes(16)
            recorded = alice.question(registry, message(FETCH, 0), id)
            for what in ("a question is answered", "and answered again when it is replayed"):
                alice.publish(registry.topic, recorded)
                check(what, alice.answer(registry, id, 5))
            id = secrets.token_bytes(16)
            yes, at = message(UPLOADED, id, 8, 9), int(time.time())
            gate.publish(gate.topic, client.envelope(keys["other"], "other", "gate", gate.topic, id, at, yes))
            check("we do not believe the answer of another device", gate.answer(registry, id, 1) is None)

        with section("silence"):
            silence(gate, alice, registry, keys, mesh, stated)

    with section("parts"):
        parts(port, mesh, keys, registry, month, stated)


def silence(gate, alice, registry, keys, mesh, stated):
    """Wrong envelopes get no answer, and are not obeyed."""
    upload, fetch, wrong = message(UPLOAD, stated(9)), message(FETCH, 0), {}

    def send(what, data=None, who=gate, content=upload, **changes):
        id = secrets.token_bytes(16)
        data = data or (lambda it: it)
        wrong[id] = what
        who.publish(registry.topic, data(who.question(registry, content, id, **changes)))

    start = client.COSE_START
    send("200 s old", shift=-200)
    send("200 s in the future", shift=200)
    send("a subject's question, 200 s old", who=alice, content=fetch, shift=-200)
    send("signed by another device", keys=keys["other"])
    send("signed by the key of nobody", keys=Keys())
    send("one changed byte in the payload", lambda it: flip(it, len(it) - 100))
    send("one changed byte in the signature", lambda it: flip(it, len(it) - 40))
    send("a byte after the end", lambda it: it + b"\0")
    send("COSE with a tag", lambda it: b"\xd2" + it)
    send("algorithm -8", lambda it: it.replace(bytes.fromhex("43a10132"), bytes.fromhex("43a10127"), 1))
    send("unprotected header as a longer map", lambda it: it.replace(start, start[:-1] + b"\xb8\0", 1))
    send("for another topic", topic=mesh.devices["gate"].topic)
    send("for another receiver", receiver="gate")
    send("for everybody", receiver=None)
    send("an unknown device", sender="nobody")
    send("a subject by the key of another", who=alice, content=fetch, sender=Keys().verify_key)
    send("a short key", who=alice, content=fetch, sender=b"\1" * 31)
    send("a key of small order", who=alice, content=fetch, sender=b"\1" + b"\0" * 31)
    send("a short head", head=b"\1" * 31)
    send("no message", content=b"")
    send("message version 2", content=encode([2, FETCH, [0]]))
    send("message kind 8", content=encode([1, 8, [0]]))
    send("a field too many", content=encode([1, FETCH, [0, 0]]))
    send("a negative number", content=encode([1, FETCH, [-1]]))
    send("a number in a longer form", content=bytes.fromhex("830102811800"))
    send("an array without length", content=bytes.fromhex("8301029f00ff"))
    send("an answer", content=message(UPLOADED, b"\1" * 16, 9, 9))
    send("a refusal", content=message(REFUSED, b"\1" * 16, 4, 9))
    send("a change notice", content=message(CHANGED, 9))
    for what, sign in (("domain of statements", client.STATEMENT), ("envelope form 2", client.ENVELOPE)):
        id = secrets.token_bytes(16)
        wrong[id] = what
        form = 2 if sign == client.ENVELOPE else 1
        payload = encode([form, "gate", "registry", registry.topic, id, int(time.time()), None, upload])
        gate.publish(registry.topic, client.sign1(keys["gate"], sign, payload))
    with Peer(gate.mqtt.port, mesh, "gone", keys["gone"]) as gone:
        send("a revoked device", who=gone, content=fetch)
        good, answers = b"\x77" * 16, {}
        for who in (gate, alice, gone):
            who.publish(registry.topic, who.question(registry, fetch, good))
            end = time.monotonic() + 2
            while (left := end - time.monotonic()) > 0:
                if (it := who.next(left, registry)) and it[0] != CHANGED:
                    answers[who.me, it[1][0]] = it
        found = [(who.me, good) in answers for who in (gate, alice, gone)]
        equal("a good question after the wrong ones is answered, but not to the revoked device", found, [True, True, False])
    answers = {id: it for (_, id), it in answers.items()}
    for id, what in wrong.items():
        equal(f"no answer: {what}", answers.get(id), None)
    equal("and nothing was stored", max(it.version for it in alice.download(registry)[0] if it.device == "gate"), 7)
    send_at = lambda shift: gate.question(registry, fetch, b"\x78" * 16, shift)
    for shift in (-110, 110):
        gate.publish(registry.topic, send_at(shift))
        check(f"answered: {shift} s away", gate.answer(registry, b"\x78" * 16, 3))


def parts(port, mesh, keys, registry, month, stated):
    """Statements that do not fit into one answer, and the largest policy."""

    def sized(size):
        """A policy of this many bytes."""
        def make(letters):
            place = [0, [0, "place"], "=", [2, "x" * letters]]
            last = rule("shop", PURPOSES[: (size - 200) // 104 - 500], month, place)
            return client.policy("MACAddress", rule("mall", PURPOSES, month), [rule("shop", PURPOSES, month), last])

        return make(30 + size - len(make(30)))

    large, too_large = sized(client.MAX_POLICY), sized(client.MAX_POLICY + 1)
    equal("policies of 65,536 bytes, and one more", (len(large), len(too_large)), (65_536, 65_537))
    data = {}
    with Peer(port, mesh) as alice:
        before = alice.download(registry)[1]
        for number, device in enumerate(("big-1", "big-2", "big-3"), 1):
            data[device] = stated(1, large, device)
            with Peer(port, mesh, device, keys[device]) as peer:
                answer = peer.ask(registry, message(UPLOAD, data[device]))
                equal(f"{device} uploads {len(data[device])} bytes", answer, (UPLOADED, [1, before + number]))
        found, head, count, left_out = alice.download(registry)
        equal("all policies, in the order of revisions", [it.device for it in found], ["gate", "other", *data])
        equal("byte by byte", {it.device: it.data for it in found if it.device in data}, data)
        check(f"in several parts: {count}", count >= 2)
        equal("up to the head, all of them believed", (head, left_out), (before + 3, 0))
        found, _, _, _ = alice.download(registry, before)
        equal("only what is new", {it.device for it in found}, set(data))
        equal("nothing new", alice.download(registry, head)[0], [])
    with Peer(port, mesh, "big-1", keys["big-1"]) as peer:
        answer = peer.ask(registry, message(UPLOAD, stated(2, too_large, "big-1")))
        equal("one byte more is refused", answer, (REFUSED, [BAD_STATEMENT, 0]))


def after_restart(port, mesh, before):
    with Peer(port, mesh) as alice:
        found, head, _, _ = alice.download(mesh.devices["registry"])
        equal("after a restart everything is there", ([it.data for it in found], head), before)


def two_repositories(place, port, mesh, keys):
    """Answers are never answered, also not by another repository: otherwise this would go on for ever."""
    with open(place / "second.toml", "a") as config:
        config.write(f'[broker]\nurl = "mqtt://127.0.0.1:{port}"\n')
    first, second = mesh.devices["registry"], mesh.devices["second"]
    with repository(place, port, device="second"), Peer(port, mesh, listen=[first.topic, second.topic]) as witness:
        witness.ask(second, message(FETCH, 0))
        id, as_first = secrets.token_bytes(16), {"keys": keys["registry"], "sender": "registry"}
        question = witness.question(second, message(FETCH, 0), id, **as_first)
        while not witness.came.empty():
            witness.came.get()
        witness.publish(second.topic, question)
        time.sleep(1)
        equal("one repository asks another: one question, one answer", witness.came.qsize(), 2)


def main():
    with tempfile.TemporaryDirectory(prefix="consent-mesh-interop-") as place:
        place = pathlib.Path(place)
        (place / "vectors").mkdir()
        with section("vectors"):
            vectors(place / "vectors")
        with section("the repository"):
            operator, keys = make_mesh(place)
            mesh = Mesh.read(place / "mesh.toml", operator)
            check("the mesh file of the tool verifies", True)
            for device, it in keys.items():
                entry = mesh.devices[device]
                equal(f"the key file of {device} fits", (it.verify_key, it.seal_key), (entry.verify_key, entry.seal_key))
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            embedded = ["--embedded-broker", f"127.0.0.1:{port}"]
            with repository(place, port, *embedded):
                conversations(port, mesh, keys)
                with Peer(port, mesh) as alice:
                    found, head, _, _ = alice.download(mesh.devices["registry"])
            with repository(place, port, *embedded):
                after_restart(port, mesh, ([it.data for it in found], head))
                with section("two repositories"):
                    two_repositories(place, port, mesh, keys)
        if failed:
            with contextlib.suppress(OSError):
                print("--- the repository's log\n" + (place / "log").read_text()[-4000:])
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
