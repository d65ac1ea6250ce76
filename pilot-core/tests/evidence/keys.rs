//! Keys: the published vectors, the weak ones, and their texts.

use ed25519_dalek::SigningKey;
use pilot_core::evidence::keys::{KeyError, verify_all};
use pilot_core::evidence::{SealingKey, Signature, Signer, Unverified, VerifyingKey};

use super::fixture::{public, secret};

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    assert_eq!(hex.len(), 2 * N, "{hex}");
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
}

/// Secret key, public key, message, signature.
const RFC_8032: [[&str; 4]; 3] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ],
    [
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ],
];

/// Reference: RFC 8032, §7.1, tests 1 to 3
#[test]
fn keys_sign_and_verify_as_published() {
    for [secret, key, message, signature] in RFC_8032 {
        let signer = SigningKey::from_bytes(&bytes(secret));
        let key: VerifyingKey = format!("ed25519:{key}").parse().unwrap();
        let signature: Signature = format!("ed25519-signature:{signature}").parse().unwrap();
        let message: Vec<u8> = match message {
            "" => vec![],
            "72" => vec![0x72],
            _ => vec![0xaf, 0x82],
        };
        assert_eq!(Signer::verifying_key(&signer), key);
        assert_eq!(Signer::sign(&signer, &message), signature);
        assert!(key.verifies(&message, &signature));
        assert!(!key.verifies(b"another", &signature));
        assert!(!public(&self::secret(9)).verifies(&message, &signature));
    }
}

/// Reference: RFC 8032, §5.1.7: s is below the group's order. Adding the order gives a second signature that a lax
/// verifier accepts.
#[test]
fn a_signature_has_no_twin() {
    let [_, key, _, signature] = RFC_8032[0];
    let (key, mut twin) = (VerifyingKey::from_bytes(&bytes(key)).unwrap(), bytes::<64>(signature));
    assert!(key.verifies(b"", &Signature(twin)));
    let order = bytes::<32>("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0;
    for (byte, order) in twin[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    assert!(!key.verifies(b"", &Signature(twin)));
}

/// The holder of a key can make a signature whose first half is the neutral point, R = 0 and s = k·a. It fits the
/// equation, and is refused: such a signature does not commit to one message and key as others do.
#[test]
fn a_signature_of_small_order_is_refused() {
    let signature = bytes(
        "0100000000000000000000000000000000000000000000000000000000000000b287e26cf2d943e4b91f8f947a43613f9a45c66870359e4a6f7ebc70fd1d6b06",
    );
    let lax = ed25519_dalek::VerifyingKey::from(&secret(9));
    let fits = ed25519_dalek::Verifier::verify(&lax, b"anything", &ed25519_dalek::Signature::from_bytes(&signature));
    assert!(fits.is_ok(), "the library's usual verification does not refuse it");
    let (key, signature) = (public(&secret(9)), Signature(signature));
    assert!(!key.verifies(b"anything", &signature));
    assert!(!verify_all(&[Unverified { key, bytes: b"anything".to_vec(), signature }]), "nor among many");
}

/// With a key of small order, a signature of zeros "verifies" for one message in eight or for all.
#[test]
fn weak_and_malformed_verifying_keys_are_refused() {
    for weak in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ] {
        assert_eq!(VerifyingKey::from_bytes(&bytes(weak)), Err(KeyError::Weak), "{weak}");
    }
    // Second forms: y = p, y = p + 3 (which the library takes for y = 3), both signs; and y = 2, which is no point.
    for malformed in [
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "0200000000000000000000000000000000000000000000000000000000000000",
    ] {
        assert_eq!(VerifyingKey::from_bytes(&bytes(malformed)), Err(KeyError::NotAKey), "{malformed}");
    }
    let second_form = bytes("f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
    assert!(ed25519_dalek::VerifyingKey::from_bytes(&second_form).is_ok(), "the library alone does not refuse it");
    assert!(
        VerifyingKey::from_bytes(&bytes("0300000000000000000000000000000000000000000000000000000000000000")).is_ok()
    );
}

/// Reference: RFC 7748, §6.1: the shared secret with such a key is zero.
#[test]
fn weak_and_malformed_sealing_keys_are_refused() {
    for weak in [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ] {
        assert_eq!(x25519_dalek::x25519([77; 32], bytes(weak)), [0; 32], "{weak}");
        assert_eq!(SealingKey::from_bytes(&bytes(weak)), Err(KeyError::Weak), "{weak}");
    }
    for second_form in [
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0900000000000000000000000000000000000000000000000000000000000080",
    ] {
        assert_eq!(SealingKey::from_bytes(&bytes(second_form)), Err(KeyError::NotAKey), "{second_form}");
    }
    let base_point = bytes("0900000000000000000000000000000000000000000000000000000000000000");
    assert_eq!(SealingKey::from_bytes(&base_point).unwrap().as_bytes(), &base_point);
}

#[test]
fn keys_have_one_written_form() {
    let key = public(&secret(7));
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(format!("{key:?}"), key.to_string());
    let sealing = SealingKey::from_bytes(&[7; 32]).unwrap();
    assert_eq!(sealing.to_string(), format!("x25519:{}", "07".repeat(32)));
    assert_eq!(sealing.to_string().parse(), Ok(sealing));
    let signature = Signature([0xab; 64]);
    assert_eq!(signature.to_string().parse(), Ok(signature));

    let text = key.to_string();
    let digits = "`ed25519:` is followed by 64 lower-case hexadecimal digits";
    for (bad, message) in [
        (sealing.to_string(), "`x25519` does not start with `ed25519:`"),
        (text.replace("ed25519:", ""), "`this` does not start with `ed25519:`"),
        (text[..text.len() - 1].to_string(), digits),
        (format!("{text}0"), digits),
        (format!("{text}\n"), digits),
        (text.replace("ed25519:", "ed25519: "), digits),
        (text.to_uppercase().replace("ED", "ed"), digits),
        (format!("ed25519:{}", "00".repeat(32)), "this is a weak key, which anybody can use"),
        (format!("ed25519:02{}", "00".repeat(31)), "these bytes are no public key"),
    ] {
        assert_eq!(bad.parse::<VerifyingKey>().expect_err(&bad).to_string(), message, "{bad}");
    }
}

/// Somebody may paste a secret in the place of a key.
#[test]
fn errors_do_not_repeat_what_may_be_secret() {
    let secret = "5ec2e7".repeat(12);
    for text in [secret.clone(), format!("ed25519:{secret}"), format!("ed25519-secret:{secret}")] {
        let error = text.parse::<VerifyingKey>().expect_err("refused");
        assert!(!format!("{error} {error:?}").contains("5ec2e7"), "{error}");
    }
}

/// What one equation says of many signatures is what each says by itself: of the published ones, and of those with a turned
/// bit anywhere.
#[test]
fn many_at_once_are_as_good_as_each() {
    let published = RFC_8032.map(|[_, key, message, signature]| Unverified {
        key: VerifyingKey::from_bytes(&bytes(key)).unwrap(),
        bytes: (0..message.len() / 2).map(|at| bytes::<1>(&message[2 * at..2 * at + 2])[0]).collect(),
        signature: Signature(bytes(signature)),
    });
    assert!(verify_all(&published));
    assert!(verify_all(&[]));
    for bit in 0..512 {
        let mut changed = published.clone();
        changed[bit % 3].signature.0[bit / 8] ^= 1 << (bit % 8);
        let one = &changed[bit % 3];
        assert!(!one.key.verifies(&one.bytes, &one.signature), "bit {bit}");
        assert!(!verify_all(&changed), "bit {bit}");
    }
    let mut other = published.clone();
    other[1].bytes.push(0);
    assert!(!verify_all(&other));
}
