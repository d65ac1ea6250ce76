//! What is well formed and yet probably not meant: policies and rules that cannot have an effect.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::english::{self, Moment};
use crate::policy::{Choice, CommunicationRule, Policy};
use crate::subsumption::Judge;
use crate::value::Time;
use crate::vocabulary::Vocabulary;

/// Files with more policies than this are not searched for [`Lint::Shadowed`] ones: each is compared with each.
pub const MAX_SHADOW_POLICIES: usize = 500;

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lint {
    /// The policy can never be active: its deadline is 0 (S9), or its condition cannot be true.
    NeverActive,
    /// The policy's deadline has passed.
    DeadlinePassed,
    /// A transfer rule that can never fire.
    TransferNeverFires,
    /// The deadline of a transfer rule has passed.
    TransferDeadlinePassed,
    /// Nobody may use the data for anything: a transfer rule without purposes, or a collection rule without purposes in
    /// a policy without transfers. (Collecting only to transfer is Table 1's option 4.)
    EmptyPurposes,
    /// Another policy of the file allows all that this one allows. Among offers, of which one is chosen, that is
    /// usual; among a subject's own policies the shadowed one has no effect.
    Shadowed,
}

impl Lint {
    /// Every lint.
    pub const ALL: [Self; 6] = [
        Self::NeverActive,
        Self::DeadlinePassed,
        Self::TransferNeverFires,
        Self::TransferDeadlinePassed,
        Self::EmptyPurposes,
        Self::Shadowed,
    ];

    /// Its name, which does not change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverActive => "never-active",
            Self::DeadlinePassed => "deadline-passed",
            Self::TransferNeverFires => "transfer-never-fires",
            Self::TransferDeadlinePassed => "transfer-deadline-passed",
            Self::EmptyPurposes => "empty-purposes",
            Self::Shadowed => "shadowed",
        }
    }

    /// The lint of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lint| lint.name() == name)
    }

    /// One line for a person who writes policies.
    pub const fn about(self) -> &'static str {
        match self {
            Self::NeverActive => "deadline 0, or a condition that cannot be true",
            Self::DeadlinePassed => "the policy's deadline has passed",
            Self::TransferNeverFires => "a transfer rule that can never take effect",
            Self::TransferDeadlinePassed => "the deadline of a transfer rule has passed",
            Self::EmptyPurposes => "data is collected or transferred that nobody may use",
            Self::Shadowed => "another policy of the file allows all that this one allows",
        }
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Something found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Place of the policy in the list.
    pub policy: usize,
    /// Of what kind.
    pub lint: Lint,
    /// What, in a sentence about the policy.
    pub sentence: String,
}

/// Looks through the named policies of one file, at time `now`.
pub fn lint(policies: &[(&str, &Choice)], now: Time, judge: &Judge<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (_, choice)) in policies.iter().enumerate() {
        let mut found = |lint, sentence| findings.push(Finding { policy: at, lint, sentence });
        let obstacle = choice.policy().and_then(|policy| obstacle(policy.collection(), judge.vocabulary));
        if let Choice::Policy(policy) = choice {
            lint_policy(policy, obstacle.as_deref(), now, judge.vocabulary, &mut found);
        }
        // What can never be active is no less so because of its neighbours.
        if obstacle.is_none()
            && policies.len() <= MAX_SHADOW_POLICIES
            && let Some(other) = shadowing(at, choice, policies, judge)
        {
            found(Lint::Shadowed, format!("all that it allows is allowed by `{other}` as well"));
        }
    }
    findings
}

/// `obstacle` is why the policy can never be active.
fn lint_policy(
    policy: &Policy,
    obstacle: Option<&str>,
    now: Time,
    vocabulary: &Vocabulary,
    found: &mut impl FnMut(Lint, String),
) {
    let usage = &policy.collection().usage;
    let has_passed = now >= usage.retention();
    if let Some(obstacle) = obstacle {
        found(Lint::NeverActive, format!("it can never be active: {obstacle}"));
    } else if has_passed {
        found(Lint::DeadlinePassed, format!("its deadline, {}, has passed", Moment(usage.retention())));
    }
    if usage.purposes().is_empty() && policy.transfers().is_empty() {
        found(Lint::EmptyPurposes, "data is collected for no purpose and no transfer".to_string());
    }
    for rule in policy.transfers() {
        let receiver = vocabulary.entities.name(rule.entity);
        let deadline = rule.usage.retention();
        let never = if obstacle.is_some() {
            Some("the policy can never be active".to_string())
        } else if has_passed {
            Some("the deadline for collecting has passed".to_string())
        } else {
            self::obstacle(rule, vocabulary)
        };
        if let Some(never) = never {
            found(Lint::TransferNeverFires, format!("its transfer to `{receiver}` can never take effect: {never}"));
        } else if now >= deadline {
            let sentence = format!("the deadline of its transfer to `{receiver}`, {}, has passed", Moment(deadline));
            found(Lint::TransferDeadlinePassed, sentence);
        }
        if rule.usage.purposes().is_empty() {
            found(Lint::EmptyPurposes, format!("data is transferred to `{receiver}` for no purpose"));
        }
    }
}

/// Why a rule is active in no state at no time.
fn obstacle(rule: &CommunicationRule, vocabulary: &Vocabulary) -> Option<String> {
    if rule.usage.retention() == Time::default() {
        return Some("its deadline is 0, and no time is before that".to_string());
    }
    if rule.condition.is_satisfiable() {
        return None;
    }
    let condition = english::condition(&rule.condition, vocabulary);
    Some(format!("its condition cannot be true ({condition})"))
}

/// The name of a policy that makes the one at this place redundant.
fn shadowing<'n>(at: usize, choice: &Choice, policies: &[(&'n str, &Choice)], judge: &Judge<'_>) -> Option<&'n str> {
    let shadows = |(other_at, (_, other)): &(usize, &(&str, &Choice))| {
        let (other_at, other) = (*other_at, *other);
        // Of two that shadow each other the first stays.
        other_at != at && is_redundant(choice, other, judge) && (other_at < at || !is_redundant(other, choice, judge))
    };
    policies.iter().enumerate().find(shadows).map(|(_, (name, _))| *name)
}

/// Whether q allows whatever p allows: p ⊑ q, and q is active whenever p is.
fn is_redundant(p: &Choice, q: &Choice, judge: &Judge<'_>) -> bool {
    match (p, q) {
        (Choice::Nothing, _) => true,
        (Choice::Policy(_), Choice::Nothing) => false,
        (Choice::Policy(p), Choice::Policy(q)) => {
            let [from, to] = [p, q].map(|policy| &policy.collection().condition);
            p.subsumes(q, judge) && judge.entailments().entails(from, to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_file;

    const WORDS: &str = r#"
        entities = { flights = [], hotels = [] }
        datatypes = { cookie = [] }
        purposes = { offers = [], ads = [] }
        attributes = { age = "number" }
    "#;

    /// Each finding as `policy name`, on 2024-01-01.
    fn findings(source: &str) -> Vec<String> {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let file = parse_file(source, &vocabulary).unwrap();
        let policies: Vec<(&str, &Choice)> = file.policies.iter().map(|p| (p.name.as_str(), &p.choice)).collect();
        let now = "2024-01-01".parse().unwrap();
        lint(&policies, now, &Judge::new(&vocabulary))
            .into_iter()
            .map(|finding| format!("{} {}: {}", policies[finding.policy].0, finding.lint, finding.sentence))
            .collect()
    }

    #[test]
    fn a_useful_policy_has_no_findings() {
        let useful = "policy a { collect cookie by flights when age > 17 and age < 18 for offers until 2025-01-01
                                 transfer to hotels for ads until 2024-06-01 }
                      policy only-to-transfer { collect cookie by flights for nothing until 2025-02-01
                                 transfer to hotels for ads until 2024-06-02 }";
        assert_eq!(findings(useful), [""; 0]);
        assert_eq!(findings("policy a { nothing }"), [""; 0]);
    }

    /// Reference: Table 1 option 4 as printed, and S9.
    #[test]
    fn retention_zero_can_never_be_active() {
        assert_eq!(
            findings(
                "policy four { collect cookie by flights for nothing until 0
                               transfer to hotels for ads until 2024-04-19 }"
            ),
            [
                "four never-active: it can never be active: its deadline is 0, and no time is before that",
                "four transfer-never-fires: its transfer to `hotels` can never take effect: \
                 the policy can never be active",
            ]
        );
    }

    #[test]
    fn a_condition_that_cannot_be_true_is_found() {
        assert_eq!(
            findings(
                "policy a { collect cookie by flights when age < 18 and age > 18 for offers until 2025-01-01 }
                 policy b { collect cookie by flights for offers until 2025-01-01
                            transfer to hotels when age != age and false for ads until 2025-01-01
                            transfer to hotels for ads until 0 }"
            ),
            [
                "a never-active: it can never be active: its condition cannot be true \
                 (both age is less than 18 and age is greater than 18)",
                "b transfer-never-fires: its transfer to `hotels` can never take effect: \
                 its deadline is 0, and no time is before that",
                "b transfer-never-fires: its transfer to `hotels` can never take effect: \
                 its condition cannot be true (both age is not age and in no case)",
            ]
        );
    }

    #[test]
    fn deadlines_are_judged_by_the_time_given() {
        assert_eq!(
            findings(
                "policy a { collect cookie by flights for offers until 2024-01-01
                            transfer to hotels for ads until 2025-01-01 }
                 policy b { collect cookie by flights for offers until 2024-01-01T00:00:01Z
                            transfer to hotels for ads until 2023-12-31 }"
            ),
            [
                "a deadline-passed: its deadline, 01/01/2024, has passed",
                "a transfer-never-fires: its transfer to `hotels` can never take effect: \
                 the deadline for collecting has passed",
                "b transfer-deadline-passed: the deadline of its transfer to `hotels`, 31/12/2023, has passed",
            ]
        );
    }

    #[test]
    fn data_that_nobody_may_use_is_found() {
        assert_eq!(
            findings(
                "policy a { collect cookie by flights for nothing until 2025-01-01 }
                 policy b { collect cookie by flights for offers until 2025-01-01
                            transfer to hotels for nothing until 2025-01-01 }"
            ),
            [
                "a empty-purposes: data is collected for no purpose and no transfer",
                "a shadowed: all that it allows is allowed by `b` as well",
                "b empty-purposes: data is transferred to `hotels` for no purpose",
            ]
        );
    }

    #[test]
    fn a_redundant_policy_is_shadowed() {
        assert_eq!(
            findings(
                "policy narrow { collect cookie by flights when age > 18 for offers until 2025-01-01 }
                 policy wide { collect cookie by flights when age > 17 for ads, offers until 2025-01-01 }
                 policy wide-again { collect cookie by flights when age > 17 for ads, offers until 2025-01-01 }
                 policy nothing-at-all { nothing }"
            ),
            [
                "narrow shadowed: all that it allows is allowed by `wide` as well",
                "wide-again shadowed: all that it allows is allowed by `wide` as well",
                "nothing-at-all shadowed: all that it allows is allowed by `narrow` as well",
            ]
        );
        // Smaller, but active where the other is not.
        let both = "policy a { collect cookie by flights for offers until 2025-01-01 }
                    policy b { collect cookie by flights when age > 17 for ads, offers until 2025-01-01 }";
        assert_eq!(findings(both), [""; 0]);
    }

    #[test]
    fn names_are_unique() {
        for lint in Lint::ALL {
            assert_eq!(Lint::by_name(lint.name()), Some(lint));
        }
    }
}
