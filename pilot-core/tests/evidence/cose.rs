//! COSE_Sign1: what is written here, another library reads, and only that form is read.

use coset::{CborSerializable, CoseSign1, CoseSign1Builder, HeaderBuilder, iana};
use pilot_core::evidence::cose::{CoseError, Domain, MAX_OVERHEAD_BYTES, Signed, sign, sign_detached};
use pilot_core::evidence::{Signature, Signer};

use super::fixture::{damaged, gate, public};

const DOMAINS: [Domain; 4] = [Domain::PolicyStatement, Domain::Envelope, Domain::MeshFile, Domain::TraceCheckpoint];

/// Reference: RFC 9052, §4.2 and §4.4, as the crate coset understands them
#[test]
fn another_library_reads_and_writes_the_same_bytes() {
    for domain in DOMAINS {
        for length in [0, 1, 23, 24, 255, 256, 65_535, 65_536] {
            let payload = vec![0xa5; length];
            let ours = sign(domain, &payload, &gate());
            assert!(ours.len() <= length + MAX_OVERHEAD_BYTES);

            let read = CoseSign1::from_slice(&ours).unwrap();
            assert_eq!(read.payload.as_deref(), Some(&payload[..]));
            read.verify_signature(domain.external_aad(), |signature, bytes| {
                let signature = Signature(signature.try_into().unwrap());
                if public(&gate()).verifies(bytes, &signature) { Ok(()) } else { Err(()) }
            })
            .unwrap();

            let header = HeaderBuilder::new().algorithm(iana::Algorithm::Ed25519).build();
            let builder = CoseSign1Builder::new().protected(header).payload(payload);
            let theirs = builder
                .create_signature(domain.external_aad(), |bytes| Signer::sign(&gate(), bytes).0.to_vec())
                .build();
            assert_eq!(theirs.to_vec().unwrap(), ours);
        }
    }
}

/// What is signed as one kind of thing is nothing else, in any combination.
#[test]
fn domains_are_apart() {
    for domain in DOMAINS {
        let bytes = sign(domain, b"payload", &gate());
        let signed = Signed::read(&bytes, usize::MAX).unwrap();
        for other in DOMAINS {
            assert_eq!(signed.is_signed_by(other, &public(&gate())), other == domain);
        }
        assert_eq!(sign_detached(domain, b"payload", &gate()), signed.signature);
        // Nor is it a signature of the bare payload.
        assert!(!public(&gate()).verifies(b"payload", &signed.signature));
    }
}

#[test]
fn only_one_form_is_read() {
    let bytes = sign(Domain::Envelope, b"some payload", &gate());
    assert_eq!(Signed::read(&bytes, bytes.len()).unwrap().write(), bytes);
    assert_eq!(Signed::read(&bytes, bytes.len() - 1), Err(CoseError::TooLarge(bytes.len() - 1)));
    for damaged in damaged(&bytes) {
        let opened = Signed::read(&damaged, usize::MAX);
        assert!(opened.is_err() || !opened.unwrap().is_signed_by(Domain::Envelope, &public(&gate())));
    }
    let tail = &bytes[6..];
    let long = [&[0x58, 12], &bytes[7..]].concat();
    let pieces = [&[0x5f][..], &bytes[6..19], &[0xff], &bytes[19..]].concat();
    for (what, other) in [
        ("with its tag", [&[0xd2], &bytes[..]].concat()),
        ("in an array without a length", [&[0x9f], &bytes[1..], &[0xff]].concat()),
        ("with the deprecated algorithm number", [b"\x84\x43\xa1\x01\x27\xa0", tail].concat()),
        ("with its header as a map", [b"\x84\xa1\x01\x32\xa0", tail].concat()),
        ("with a key id", [b"\x84\x46\xa2\x01\x32\x04\x41x\xa0", tail].concat()),
        ("with an unprotected header", [b"\x84\x43\xa1\x01\x32\xa1\x04\x41x", tail].concat()),
        ("with a longer length than it needs", [&bytes[..6], &long].concat()),
        ("in pieces", [&bytes[..6], &pieces].concat()),
        ("with a detached payload", [&bytes[..6], &[0xf6], &bytes[19..]].concat()),
        ("with a shorter signature", [&bytes[..19], &[0x58, 0x3f], &bytes[21..84]].concat()),
    ] {
        assert_eq!(Signed::read(&other, usize::MAX), Err(CoseError::Form), "{what}");
    }
}
