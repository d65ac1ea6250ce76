//! Signed consents that a controller shows (`dc-gateway consents`).
//!
//! A trace names a signature by a mark only: addresses are so few that whoever had the signature could try them all out. Who
//! has the controller's audit key and the signature can tell that it is the one of the record, and verify it.

use hashbrown::HashMap;
use pilot_core::evidence::Pseudonym;
use pilot_core::evidence::consent::{Consent, ConsentSignature};
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::evidence::pseudonym::ConsentMark;
use pilot_core::evidence::trace::action::Release;
use zeroize::Zeroizing;

use super::sources::Sources;

/// A signature and the address that it is about.
#[derive(Clone)]
pub struct Shown {
    /// The address.
    pub item: Zeroizing<[u8; 6]>,
    /// By whom it was released.
    pub signature: ConsentSignature,
}

/// It has a personal value.
impl std::fmt::Debug for Shown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Shown(hidden)")
    }
}

/// What a mark in a record proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// One holder of a key has signed exactly this consent.
    Holds,
    /// Nothing: the signature is not here.
    NotShown,
    /// That the controller says what is not so: the signature is of something else.
    Wrong,
}

/// The signatures that were shown, by the marks that stand for them.
#[derive(Debug, Default)]
pub struct Consents {
    /// Several may be said to be the same one; what others say must not count against who shows the right one.
    by_mark: HashMap<ConsentMark, Vec<(Pseudonym, Shown)>>,
}

impl Consents {
    /// Under every audit key that is known.
    pub fn of(sources: &Sources) -> Self {
        let mut by_mark = HashMap::<_, Vec<_>>::new();
        for key in &sources.keys {
            for shown in &sources.consents {
                let ConsentSignature { key: signer, signature } = &shown.signature;
                let pseudonym = Pseudonym::of(&*shown.item, key);
                let mark = ConsentMark::of(signer, signature, key);
                by_mark.entry(mark).or_default().push((pseudonym, shown.clone()));
            }
        }
        Self { by_mark }
    }

    /// What a mark proves of a release to a controller, which has one of these tags.
    pub fn proof(&self, mark: &ConsentMark, release: &Release, tags: &[FrameTag]) -> Proof {
        let Release { policy, epoch, item, .. } = release;
        // A signature that is said to be about another item is somebody's mistake or malice, and says nothing of this one.
        let all = self.by_mark.get(mark).into_iter().flatten();
        let mut of_this_item = all.filter(|(pseudonym, _)| *pseudonym == item.pseudonym).peekable();
        if of_this_item.peek().is_none() {
            return Proof::NotShown;
        }
        let is_signed = |shown: &Shown, controller: &FrameTag| {
            let consent = Consent { item: *shown.item, controller: *controller, policy: *policy, epoch: *epoch };
            shown.signature.verify(&consent).is_ok()
        };
        let holds = of_this_item.any(|(_, shown)| tags.iter().any(|controller| is_signed(shown, controller)));
        if holds { Proof::Holds } else { Proof::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use pilot_core::codec::Digest;
    use pilot_core::evidence::AuditKey;
    use pilot_core::evidence::trace::action::{Item, Word};
    use pilot_core::semantics::Epoch;

    use super::*;

    const ITEM: [u8; 6] = [1, 2, 3, 4, 5, 6];
    const GATE: FrameTag = FrameTag(*b"gate");

    fn release(epoch: u64, key: &AuditKey) -> Release {
        let item = Item { pseudonym: Pseudonym::of(&ITEM, key), datatype: Word::new("MACAddress").unwrap() };
        Release { item, policy: Digest([7; 32]), epoch: Epoch(epoch), handle: None }
    }

    /// A signature proves the consent that it is of, for who has the audit key; what others say of it changes nothing.
    #[test]
    fn marks_are_verified() {
        let key = || AuditKey::new(Zeroizing::new([9; 32]));
        let signer = SigningKey::from_bytes(&[3; 32]);
        let consent = Consent { item: ITEM, controller: GATE, policy: Digest([7; 32]), epoch: Epoch(5) };
        let signature = consent.sign(&signer);
        let mark = ConsentMark::of(&signature.key, &signature.signature, &key());
        let shown = |item| Shown { item: Zeroizing::new(item), signature };
        let sources = Sources { keys: vec![key()], consents: vec![shown(ITEM), shown([0; 6])], ..Sources::default() };
        let consents = Consents::of(&sources);
        assert_eq!(consents.proof(&mark, &release(5, &key()), &[FrameTag([0; 4]), GATE]), Proof::Holds);
        assert_eq!(consents.proof(&mark, &release(6, &key()), &[GATE]), Proof::Wrong);
        assert_eq!(consents.proof(&mark, &release(5, &key()), &[FrameTag([0; 4])]), Proof::Wrong);

        let malice = Sources { keys: vec![key()], consents: vec![shown([0; 6])], ..Sources::default() };
        assert_eq!(Consents::of(&malice).proof(&mark, &release(5, &key()), &[GATE]), Proof::NotShown);
        let keyless = Sources { keys: Vec::new(), ..sources };
        assert_eq!(Consents::of(&keyless).proof(&mark, &release(5, &key()), &[GATE]), Proof::NotShown);
    }
}
