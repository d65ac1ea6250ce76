"""A client of consent-mesh, written from docs/protocol.md alone: no line of it comes from the Rust code.

It reads mesh files and key files, makes and opens policies, statements, envelopes, messages and withdraw notices, and
speaks MQTT 5. It is for tests: small and readable rather than fast. How to run the tests is in run.py.
"""

import datetime
import hashlib
import hmac
import os
import queue
import re
import secrets
import stat
import time
import tomllib

import cbor2
import paho.mqtt.client as mqtt
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

SKEW = 120
MAX_POLICY, MAX_STATEMENT, MAX_MESSAGE, MAX_ENVELOPE, MAX_PACKET = 65_536, 65_933, 139_264, 140_237, 262_144


class Refused(Exception):
    """What was read is not to be believed; the text says why."""


def need(condition, why):
    if not condition:
        raise Refused(why)


# --- Notation: CBOR in one byte form -----------------------------------------------------------------------------------


def encode(value):
    return cbor2.dumps(value)


def decode(data):
    try:
        value = cbor2.loads(data)
    except Exception as e:
        raise Refused(f"no CBOR: {e}") from e
    plain(value)
    need(encode(value) == data, "another byte form")
    return value


def plain(value):
    """No tags, no floating point, no maps, no integers beyond 64 bits."""
    if isinstance(value, list):
        for part in value:
            plain(part)
    elif type(value) is int:
        need(-(2**63) <= value < 2**64, "integer too large")
    else:
        need(value is None or type(value) in (str, bytes, bool), f"{type(value).__name__} in CBOR")


def uint(value, why="no uint"):
    need(type(value) is int and 0 <= value < 2**64, why)
    return value


def array(value, length, why):
    need(type(value) is list and len(value) == length, why)
    return value


def octets(value, length, why):
    need(type(value) is bytes and (length is None or len(value) == length), why)
    return value


def text(value, why="no text"):
    need(type(value) is str, why)
    return value


# --- Keys --------------------------------------------------------------------------------------------------------------

P = 2**255 - 19
ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y of a point of order 8 of edwards25519
SMALL_ED25519 = {0, 1, P - 1, ORDER_8, P - ORDER_8}
SMALL_X25519 = {
    0,
    1,
    P - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
}


def good_ed25519(key):
    y = int.from_bytes(key, "little") & (2**255 - 1)
    need(len(key) == 32 and y < P, "no canonical Ed25519 key")
    need(y not in SMALL_ED25519, "Ed25519 key of small order")
    return key


def good_x25519(key):
    u = int.from_bytes(key, "little")
    need(len(key) == 32 and u < P, "no canonical X25519 key")
    need(u not in SMALL_X25519, "X25519 key of small order")
    return key


def written(prefix, length, line):
    """The bytes of `prefix:<lower-case digits>`."""
    need(isinstance(line, str) and re.fullmatch(f"{prefix}:[0-9a-f]{{{2 * length}}}", line), f"no {prefix}")
    return bytes.fromhex(line.split(":")[1])


def verify(key, signature, data):
    """Strict: S below the group's order (OpenSSL sees to that), neither key nor R of small order."""
    good_ed25519(key)
    r = int.from_bytes(signature[:32], "little") & (2**255 - 1)
    need(len(signature) == 64 and r not in SMALL_ED25519, "R of small order")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError) as e:
        raise Refused("signature") from e


def raw(public):
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


class Keys:
    def __init__(self, ed25519=None, x25519=None):
        self.signing = Ed25519PrivateKey.from_private_bytes(ed25519 or secrets.token_bytes(32))
        self.opening = X25519PrivateKey.from_private_bytes(x25519 or secrets.token_bytes(32))
        self.verify_key = raw(self.signing.public_key())
        self.seal_key = raw(self.opening.public_key())

    @classmethod
    def read(cls, path):
        need(stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, "others may read the key file")
        with open(path, encoding="ascii", newline="") as file:
            return cls.parse(file.read())

    @classmethod
    def parse(cls, content):
        lines = content.split("\n")
        need(len(lines) == 4 and lines[3] == "", "a key file has three lines")
        need(lines[0] == "consent-mesh secret keys 1", "a key file of another version")
        return cls(written("ed25519-secret", 32, lines[1]), written("x25519-secret", 32, lines[2]))

    def sign(self, data):
        return self.signing.sign(data)


# --- Signed things: COSE_Sign1 -----------------------------------------------------------------------------------------

MESH_FILE, STATEMENT, ENVELOPE = (f"consent-mesh {it}".encode() for it in ("mesh file", "policy statement", "envelope"))
PROTECTED = bytes.fromhex("a10132")
COSE_START = bytes.fromhex("8443a10132a0")


def signed_bytes(domain, payload):
    return encode(["Signature1", PROTECTED, domain, payload])


def sign1(keys, domain, payload):
    return COSE_START + encode(payload) + encode(keys.sign(signed_bytes(domain, payload)))


def split1(data):
    """Payload and signature, not verified yet."""
    need(data[:6] == COSE_START, "no COSE_Sign1 of this form")
    payload, signature = array(decode(b"\x82" + data[6:]), 2, "no COSE_Sign1 of this form")
    return octets(payload, None, "no payload"), octets(signature, 64, "no signature")


# --- The mesh file -----------------------------------------------------------------------------------------------------

WORDS = set("and by collect false for not nothing or policy to transfer true until when".split())


def name(value):
    need(type(value) is str and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:#-]{0,127}", value), f"no name: {value!r}")
    need(not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value), f"a name like a date: {value}")
    need(not re.fullmatch(r"[0-9][0-9.:-]*", value) and value not in WORDS, f"no name: {value}")
    return value


def moment(value):
    if type(value) is datetime.date:
        value = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.timezone.utc)
    need(type(value) is datetime.datetime and value.tzinfo and not value.microsecond, "no time")
    return int(value.timestamp())


def fields(table, required, optional, what):
    need(type(table) is dict and required <= table.keys() <= required | optional, f"fields of {what}")


class Vocabulary:
    ORDERS = ("entities", "datatypes", "purposes")

    def __init__(self, table):
        # With `extends`, words are added that the document does not list.
        need("extends" not in table, "this client does not know the default vocabulary")
        fields(table, set(), {*self.ORDERS, "attributes"}, "vocabulary")
        self.orders = {order: table.get(order, {}) for order in self.ORDERS}
        self.attributes = table.get("attributes", {})
        for order in self.orders.values():
            for word, parents in order.items():
                name(word)
                need(all(parent in order for parent in parents), f"parents of {word}")
                need(not any(self.below(order, parent, word) for parent in parents), f"a cycle at {word}")
        for word, kind in self.attributes.items():
            need(name(word) and kind in ("number", "string", "boolean", "time"), f"kind of {word}")

    @staticmethod
    def below(order, word, general):
        """Whether `general` is `word` or more general."""
        seen, todo = set(), [word]
        while todo:
            if (it := todo.pop()) not in seen:
                seen.add(it)
                todo += order[it]
        return general in seen

    def word(self, order, value):
        need(name(value) in self.orders[order], f"{value} is not among the {order}")


class Device:
    def __init__(self, table, vocabulary):
        required = {"name", "role", "entity", "tag", "signing_key", "sealing_key", "valid_from", "valid_until"}
        fields(table, required, {"revoked"}, "a device")
        self.name, self.role, self.entity, self.tag = name(table["name"]), table["role"], table["entity"], table["tag"]
        need(self.role in ("controller", "repository"), "role")
        vocabulary.word("entities", self.entity)
        need(type(self.tag) is str and re.fullmatch("[0-9a-f]{8}", self.tag), "tag")
        self.verify_key = good_ed25519(written("ed25519", 32, table["signing_key"]))
        self.seal_key = good_x25519(written("x25519", 32, table["sealing_key"]))
        self.valid_from, self.valid_until = moment(table["valid_from"]), moment(table["valid_until"])
        self.revoked = moment(table["revoked"]) if "revoked" in table else None

    def may_act(self, now):
        return self.valid_from <= now < self.valid_until and (self.revoked is None or now < self.revoked)

    @property
    def topic(self):
        return f"consent-mesh/device/{self.tag}"

    @property
    def changes(self):
        return f"consent-mesh/changes/{self.tag}"


class Mesh:
    def __init__(self, data, signatures, operator, now, last_serial=0):
        """`data` are the exact bytes of mesh.toml, `signatures` those of mesh.toml.sig, `operator` is "ed25519:…"."""
        operator = good_ed25519(written("ed25519", 32, operator))
        need(len(data) <= 67_108_864 and len(signatures) <= 1024, "too long")
        try:
            lines = signatures.decode("ascii").split("\n")
        except UnicodeDecodeError as e:
            raise Refused("no signature file") from e
        need(len(lines) in (2, 3) and lines[-1] == "", "no signature file")
        need(any(self.signed(operator, line, data) for line in lines[:-1]), "not signed by the operator")

        try:
            table = tomllib.loads(data.decode())
        except ValueError as e:
            raise Refused(f"no TOML: {e}") from e
        need(table.get("version") == 1, "version of mesh files")
        required = {"version", "serial", "issued", "expires", "vocabulary"}
        fields(table, required, {"next_operator_key", "devices"}, "mesh file")
        self.serial, self.issued, self.expires = table["serial"], moment(table["issued"]), moment(table["expires"])
        need(uint(self.serial) >= last_serial, "an older mesh file")
        need(now < self.expires and self.issued <= now + SKEW, "mesh file expired or of the future")
        if "next_operator_key" in table:
            good_ed25519(written("ed25519", 32, table["next_operator_key"]))
        self.vocabulary = Vocabulary(table["vocabulary"])
        devices = [Device(it, self.vocabulary) for it in table.get("devices", [])]
        for unique in ("name", "tag", "verify_key", "seal_key"):
            need(len({getattr(it, unique) for it in devices}) == len(devices), f"{unique} twice")
        self.devices = {it.name: it for it in devices}

    @staticmethod
    def signed(operator, line, data):
        try:
            verify(operator, written("ed25519-signature", 64, line), signed_bytes(MESH_FILE, data))
        except Refused:
            return False
        return True

    @classmethod
    def read(cls, path, operator, now=None):
        with open(path, "rb") as file, open(f"{path}.sig", "rb") as signatures:
            return cls(file.read(), signatures.read(), operator, int(now or time.time()))

    def acting(self, device, now):
        need(device in self.devices, f"unknown device {device}")
        need(self.devices[device].may_act(now), f"{device} is not valid now")
        return self.devices[device]


# --- Policies ----------------------------------------------------------------------------------------------------------


def rule(entity, purposes, until, condition=True):
    return [condition, entity, sorted(set(purposes), key=str.encode), until]


def policy(datatype, collection, transfers=()):
    """The canonical bytes."""
    unique = {encode(it): it for it in transfers}.values()
    return encode([1, datatype, collection, sorted(unique, key=rule_order)])


def rule_order(it):
    condition, entity, purposes, retention = it
    return entity.encode(), retention, [p.encode() for p in purposes], condition_text(condition).encode()


def condition_text(it):
    """As `consent-mesh policy show` prints it."""
    if type(it) is bool:
        return "true" if it else "false"
    if it[0] == 0:
        return f"{term_text(it[1])} {it[2]} {term_text(it[3])}"
    parts = [condition_text(part) for part in it[1:]]
    kinds = [None if type(part) is bool else part[0] for part in it[1:]]
    if it[0] == 1:
        return f"not ({parts[0]})" if kinds[0] in (0, 2, 3) else f"not {parts[0]}"
    brackets = [kinds[0] == 3, kinds[1] in (2, 3)] if it[0] == 2 else [False, kinds[1] == 3]
    left, right = (f"({part})" if bracket else part for part, bracket in zip(parts, brackets))
    return f"{left} {'and' if it[0] == 2 else 'or'} {right}"


def term_text(it):
    kind, value = it[0], it[1]
    if kind == 1:
        whole, part = divmod(abs(value), 1_000_000)
        return ("-" if value < 0 else "") + f"{whole}.{part:06}".rstrip("0").rstrip(".")
    if kind == 2:  # a guess: the document does not say how strings are escaped
        known = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
        return '"' + "".join(known.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in value) + '"'
    if kind == 3:
        return "true" if value else "false"
    if kind == 4:  # a guess: midnight as a date
        at = datetime.datetime.fromtimestamp(value, datetime.timezone.utc)
        return at.strftime("%Y-%m-%d" if value % 86400 == 0 else "%Y-%m-%dT%H:%M:%SZ")
    if kind == 5:
        return f"{value}({', '.join(term_text(argument) for argument in it[2:])})"
    return value


FUNCTIONS = {
    "hour": (["time"], "number"),
    "minute": (["time"], "number"),
    "weekday": (["time"], "number"),
    "distance": (["number"] * 4, "number"),
    "length": (["string"], "number"),
    "contains": (["string"] * 2, "boolean"),
    "starts_with": (["string"] * 2, "boolean"),
}


class Counter:
    comparisons = parts = 0


def open_policy(data, vocabulary):
    """The policy as nested lists, if it is one in the words of the vocabulary."""
    need(len(data) <= MAX_POLICY, "policy too long")
    it = decode(data)
    need(type(it) is list and it and it[0] == 1, "policy form is not known")
    _, datatype, collection, transfers = array(it, 4, "no policy")
    vocabulary.word("datatypes", datatype)
    need(type(transfers) is list and len(transfers) <= 256, "transfer rules")
    comparisons = sum(open_rule(part, vocabulary) for part in [collection, *transfers])
    need(comparisons <= 256, "too many comparisons")
    keys = [rule_order(part) for part in transfers]
    need(all(a < b for a, b in zip(keys, keys[1:])), "order of transfer rules")
    return it


def open_rule(it, vocabulary):
    condition, entity, purposes, retention = array(it, 4, "no rule")
    vocabulary.word("entities", entity)
    need(type(purposes) is list and len(purposes) <= 256, "purposes")
    for purpose in purposes:
        vocabulary.word("purposes", purpose)
    need(purposes == sorted(set(purposes), key=str.encode), "order of purposes")
    uint(retention)
    count = Counter()
    open_condition(condition, vocabulary, count, 1)
    need(count.comparisons <= 16 and count.parts <= 128, "condition too long")
    return count.comparisons


def open_condition(it, vocabulary, count, level):
    count.parts += 1
    need(level <= 32, "condition too deep")
    if type(it) is bool:
        return
    need(type(it) is list and it and type(it[0]) is int and 0 <= it[0] <= 3, "no condition")
    array(it, (4, 2, 3, 3)[it[0]], "no condition")
    if it[0] != 0:
        for part in it[1:]:
            open_condition(part, vocabulary, count, level + 1)
        return
    count.comparisons += 1
    left, right = (kind_of(term, vocabulary, count, level + 1) for term in (it[1], it[3]))
    allowed = ("=", "!=") if left in ("string", "boolean") else ("=", "!=", "<", "<=", ">", ">=")
    need(left == right and it[2] in allowed, "comparison of these kinds")


def kind_of(it, vocabulary, count, level):
    count.parts += 1
    need(level <= 32, "condition too deep")
    need(type(it) is list and len(it) >= 2 and type(it[0]) is int and 0 <= it[0] <= 5, "no term")
    kind, value = it[:2]
    need(kind == 5 or len(it) == 2, "no term")
    if kind == 0:
        need(name(value) in vocabulary.attributes, f"{value} is not among the attributes")
        return vocabulary.attributes[value]
    if kind == 1:
        need(type(value) is int and -(2**63) <= value < 2**63, "no number")
        return "number"
    if kind == 2:
        need(len(text(value).encode()) <= 256, "string too long")
        return "string"
    if kind == 3:
        need(type(value) is bool, "no boolean")
        return "boolean"
    if kind == 4:
        need(uint(value) < 253402300800, "time of the year 10000")
        return "time"
    need(type(value) is str and value in FUNCTIONS, "no function")
    need([kind_of(term, vocabulary, count, level + 1) for term in it[2:]] == FUNCTIONS[value][0], f"arguments of {value}")
    return FUNCTIONS[value][1]


# --- Policy statements -------------------------------------------------------------------------------------------------


def statement(keys, device, entity, version, policy_bytes, issued, expires):
    return sign1(keys, STATEMENT, encode([1, device, entity, version, policy_bytes, issued, expires]))


def statement_id(data):
    return hashlib.sha256(data).digest()


class Statement:
    """A statement that is to be believed at the moment `now`."""

    def __init__(self, data, mesh, now):
        need(len(data) <= MAX_STATEMENT, "statement too long")
        payload, signature = split1(data)
        it = decode(payload)
        need(type(it) is list and it and it[0] == 1, "version of this form")
        _, device, entity, version, policy_bytes, issued, expires = array(it, 7, "no statement")
        for number in (version, issued, expires):
            uint(number)
        entry = mesh.acting(name(device), now)
        need(entry.role == "controller", "not a controller")
        verify(entry.verify_key, signature, signed_bytes(STATEMENT, payload))
        need(issued < expires and now < expires and issued <= now + SKEW, "period")
        need(name(entity) == entry.entity, "another entity")
        self.policy = None
        if policy_bytes is not None:
            self.policy = open_policy(octets(policy_bytes, None, "no policy"), mesh.vocabulary)
            collector = self.policy[2][1]
            order = mesh.vocabulary.orders["entities"]
            need(Vocabulary.below(order, entity, collector), f"{entity} may not speak for {collector}")
        self.data, self.device, self.version, self.id = data, device, version, statement_id(data)
        self.policy_bytes = policy_bytes


# --- Envelopes and messages --------------------------------------------------------------------------------------------

UPLOAD, UPLOADED, FETCH, POLICIES, CHANGED, WITHDRAW, WITHDRAWN, REFUSED = range(8)
MALFORMED, NOT_ALLOWED, BAD_STATEMENT, NOT_HIGHER, BUSY, OUT_OF_ORDER, NOT_THE_OWNER = range(7)


def message(kind, *values):
    return encode([1, kind, list(values)])


FORMS = {  # what each field is: a number is the length of a byte string
    UPLOAD: [bytes],
    UPLOADED: [16, int, int],
    FETCH: [int],
    POLICIES: [16, int, int, int, list],
    CHANGED: [int],
    WITHDRAW: [bytes],
    WITHDRAWN: [16],
    REFUSED: [16, int, int],
}


def open_message(data):
    need(len(data) <= MAX_MESSAGE, "message too long")
    version, kind, values = array(decode(data), 3, "no message")
    need(version == 1 and type(kind) is int and kind in FORMS, "no message")
    array(values, len(FORMS[kind]), "fields of a message")
    for form, value in zip(FORMS[kind], values):
        if form is int:
            uint(value)
        elif form is list:
            need(type(value) is list and all(type(it) is bytes for it in value), "no statements")
        else:
            octets(value, None if form is bytes else form, "no bytes")
    return kind, values


def reply_topic(key):
    return "consent-mesh/reply/" + hashlib.sha256(b"consent-mesh reply topic" + key).hexdigest()


def envelope(keys, sender, receiver, topic, id, at, message_bytes, head=None):
    return sign1(keys, ENVELOPE, encode([1, sender, receiver, topic, id, at, head, message_bytes]))


class Envelope:
    """An envelope that came on `topic` for `receiver` and opens at the moment `now`."""

    def __init__(self, data, topic, receiver, mesh, now):
        need(len(data) <= MAX_ENVELOPE, "envelope too long")
        payload, signature = split1(data)
        version, sender, to, where, id, at, head, content = array(decode(payload), 8, "no envelope")
        need(version == 1, "version of this form")
        need(len(text(where).encode()) <= 512 and where == topic, "another topic")
        need(type(to) is type(receiver) and to == receiver, "another receiver")
        octets(id, 16, "no id")
        need(abs(uint(at) - now) <= SKEW, "stale")
        need(head is None or octets(head, 32, "no head"), "no head")
        need(len(octets(content, None, "no message")) <= MAX_MESSAGE, "message too long")
        if type(sender) is bytes:
            need(topic.startswith("consent-mesh/device/"), "anonymous")
            key = good_ed25519(octets(sender, 32, "no key"))
        else:
            key = mesh.acting(name(sender), now).verify_key
        verify(key, signature, signed_bytes(ENVELOPE, payload))
        self.sender, self.id, self.head, self.message = sender, id, head, content


# --- Withdraw notices: HPKE (RFC 9180), base mode, one message ---------------------------------------------------------

KEM_SUITE = b"KEM" + bytes.fromhex("0020")
HPKE_SUITE = b"HPKE" + bytes.fromhex("0020 0001 0003")


def extract(suite, salt, label, ikm):
    return hmac.digest(salt, b"HPKE-v1" + suite + label + ikm, "sha256")


def expand(suite, prk, label, info, length):
    info = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, info + b"\x01", "sha256")[:length]  # no more than one block is needed here


def hpke_context(dh, enc, receiver, info):
    shared = expand(KEM_SUITE, extract(KEM_SUITE, b"", b"eae_prk", dh), b"shared_secret", enc + receiver, 32)
    context = b"\0" + extract(HPKE_SUITE, b"", b"psk_id_hash", b"") + extract(HPKE_SUITE, b"", b"info_hash", info)
    secret = extract(HPKE_SUITE, shared, b"secret", b"")
    key = expand(HPKE_SUITE, secret, b"key", context, 32)
    return ChaCha20Poly1305(key), expand(HPKE_SUITE, secret, b"base_nonce", context, 12)


def hpke_seal(receiver, info, plaintext):
    once = X25519PrivateKey.generate()
    enc = raw(once.public_key())
    cipher, nonce = hpke_context(once.exchange(X25519PublicKey.from_public_bytes(receiver)), enc, receiver, info)
    return enc + cipher.encrypt(nonce, plaintext, b"")


def hpke_open(keys, info, sealed):
    enc = sealed[:32]
    try:
        dh = keys.opening.exchange(X25519PublicKey.from_public_bytes(enc))
        cipher, nonce = hpke_context(dh, enc, keys.seal_key, info)
        return cipher.decrypt(nonce, sealed[32:], b"")
    except (InvalidTag, ValueError) as e:
        raise Refused("does not open") from e


NOTICE = b"consent-mesh/withdraw/1\0"


def notice_signed_bytes(tag, item, epoch, until):
    return NOTICE + bytes.fromhex(tag) + item + epoch.to_bytes(8, "big") + until.to_bytes(8, "big")


def seal_notice(controller, item, epoch, until, keys=None):
    proof = keys and [keys.verify_key, keys.sign(notice_signed_bytes(controller.tag, item, epoch, until))]
    return hpke_seal(controller.seal_key, NOTICE + bytes.fromhex(controller.tag), encode([1, item, epoch, until, proof]))


def open_notice(controller, keys, sealed):
    """(item, epoch, until, key or None), as the controller reads it."""
    need(32 < len(sealed) <= 256, "length of a notice")
    it = decode(hpke_open(keys, NOTICE + bytes.fromhex(controller.tag), sealed))
    version, item, epoch, until, proof = array(it, 5, "no notice")
    need(version == 1, "version of this form")
    octets(item, 6, "no item")
    if proof is not None:
        key, signature = array(proof, 2, "no signature")
        signed = notice_signed_bytes(controller.tag, item, uint(epoch), uint(until))
        verify(octets(key, 32, "no key"), octets(signature, 64, "no signature"), signed)
    return item, uint(epoch), uint(until), proof and proof[0]


# --- MQTT --------------------------------------------------------------------------------------------------------------


class Peer:
    """A connection: of a device of the mesh, or of an anonymous subject with a key for this connection only."""

    def __init__(self, port, mesh, device=None, keys=None, listen=()):
        self.mesh, self.keys = mesh, keys or Keys()
        self.me = device or self.keys.verify_key
        self.topic = mesh.devices[device].topic if device else reply_topic(self.keys.verify_key)
        self.came = queue.Queue()  # (topic, payload, retained) as they came
        self.ignored = []  # why envelopes did not open
        ready = queue.Queue()
        self.mqtt = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=secrets.token_hex(10), protocol=mqtt.MQTTv5)
        self.mqtt.on_message = lambda _c, _u, it: self.came.put((it.topic, it.payload, it.retain))
        self.mqtt.on_connect = lambda *_: self.mqtt.subscribe(
            [(topic, SubscribeOptions(qos=0)) for topic in (self.topic, *listen)]
        )
        self.mqtt.on_subscribe = lambda _c, _u, _m, codes, _p: ready.put([it.value for it in codes])
        properties = Properties(PacketTypes.CONNECT)
        properties.MaximumPacketSize = MAX_PACKET
        self.mqtt.connect("127.0.0.1", port, clean_start=True, properties=properties)
        self.mqtt.loop_start()
        need(all(code == 0 for code in ready.get(timeout=10)), "the broker refuses the subscription")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.mqtt.disconnect()
        self.mqtt.loop_stop()

    def publish(self, topic, payload):
        self.mqtt.publish(topic, payload, qos=0, retain=False)

    def question(self, to, content, id, shift=0, **changes):
        """The envelope of a question; `changes` make it a wrong one."""
        it = dict(keys=self.keys, sender=self.me, receiver=to.name, topic=to.topic, head=None) | changes
        return envelope(id=id, at=int(time.time()) + shift, message_bytes=content, **it)

    def next(self, timeout, sender):
        """The next message that `sender` has sent us, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            try:
                topic, payload, retained = self.came.get(timeout=left)
                need(not retained, "a retained message")
                receiver = None if topic.startswith("consent-mesh/changes/") else self.me
                it = Envelope(payload, topic, receiver, self.mesh, int(time.time()))
                need(it.sender == sender.name, "from another device")
                return open_message(it.message)
            except queue.Empty:
                return None
            except Refused as e:
                self.ignored.append(str(e))
        return None

    def answer(self, to, id, timeout, accept=lambda kind, values: True):
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if it := self.next(left, to):
                kind, values = it
                if kind != CHANGED and values[0] == id and accept(kind, values):
                    return kind, values[1:]
        return None

    def ask(self, to, content, id=None, tries=4, accept=lambda kind, values: True):
        """The answer as (kind, fields after the request); asks again after 1, 2, 4, … seconds."""
        id = id or secrets.token_bytes(16)
        for attempt in range(tries):
            self.publish(to.topic, self.question(to, content, id))
            if it := self.answer(to, id, 2**attempt, accept):
                return it
        raise Refused("no answer")

    def download(self, repository, since=0):
        """(statements that are to be believed, head, number of parts, number left out)"""
        id, parts, believed, left_out = secrets.token_bytes(16), 0, [], 0
        while True:
            asked = since
            kind, values = self.ask(
                repository, message(FETCH, since), id, accept=lambda kind, values: kind != POLICIES or values[1] == asked
            )
            need(kind == POLICIES, f"refused: {values}")
            _, until, head, statements = values
            parts += 1
            if head < since:
                since, believed = 0, []
                continue
            need(since <= until <= head and (until == head or (until > since and statements)), "wrong parts")
            need(len(statements) <= 1 or sum(map(len, statements)) <= 131_072, "a part is too long")
            for data in statements:
                try:
                    believed.append(Statement(data, self.mesh, int(time.time())))
                except Refused:
                    left_out += 1
            since = until
            if since == head:
                return believed, head, parts, left_out
