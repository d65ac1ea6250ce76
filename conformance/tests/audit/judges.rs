//! However many judges there are, and however fast each of them is, they say the same.

use std::num::NonZeroUsize;

use conformance::audit::judges::Judges;
use conformance::audit::report::{Filter, Verdict};
use conformance::audit::sources::{Given, Sources};
use conformance::audit::{Progress, audit_by};
use conformance::inject::{KINDS, inject};

use super::support::Mesh;

/// How often each number of judges is asked: threads take turns as they like.
const TIMES: usize = 3;

#[test]
fn all_say_the_same() {
    let mesh = Mesh::new(9, 4, 8_000, 21);
    // One mistake after the other, as far as each still has a place. Damage would hide those that come after it.
    let mut root = mesh.root();
    let mut injected = 0;
    for (seed, kind) in KINDS.iter().filter(|kind| kind.exit() == 1).enumerate() {
        let out = mesh.beside(kind.name);
        if inject(kind, &root, &out, None, seed as u64).is_ok() {
            (root, injected) = (out, injected + 1);
        }
    }
    assert!(injected > 20, "{injected}");

    let given = Given { operator: Some(root.join("operator.pub")), ..Given::default() };
    let sources = Sources::find(&[root], &given).unwrap();
    let judged = |count, batch, batches| {
        let [count, batch] = [count, batch].map(|number| NonZeroUsize::new(number).unwrap());
        audit_by(Judges { count, batch, batches }, &sources, Filter::default(), &Progress::default())
    };
    let one = judged(1, 1, 1);
    assert_eq!(one.verdict(), Verdict::Violates);
    assert!(one.findings.len() > 20, "{}", one.findings.len());
    for judges in [1, 2, 3, 5, 13] {
        for (batch, batches) in [(1, 0), (3, 50), (1000, 100)] {
            for _ in 0..TIMES {
                assert!(judged(judges, batch, batches) == one, "{judges} judges say otherwise");
            }
        }
    }
}
