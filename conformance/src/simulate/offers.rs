//! Policies of a simulation: what controllers publish, version after version, and what people want.

use fastrand::Rng;
use pilot_core::policy::{Choice, Policy};
use pilot_core::semantics::{Policies, PolicyId};
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;

use super::SimulateError;
use super::cast::{GROUP, group_of, groups};

/// What people decide holds for longer than any simulation.
const FOR_LONG: &str = "2100-01-01";
/// How much longer than the sender the receiver of a transfer may keep data, in seconds.
const TRANSFER_SECONDS: u64 = 600;
/// Of how many groups a subject thinks something.
const OPINIONS: usize = 2;

/// The next version of a controller's policy, to be kept to until `deadline`.
///
/// Of each group, one counts people and shares that, one gets it, one sells and shares, and one makes offers. Every third
/// version asks for less.
pub fn version(
    (controller, controllers): (u32, u32),
    version: u64,
    deadline: Time,
    vocabulary: &Vocabulary,
) -> Result<Policy, SimulateError> {
    let (group, until) = (group_of(controller, controllers), deadline.unix());
    let later = until.saturating_add(TRANSFER_SECONDS);
    let modest = version % 3 == 2;
    let (datatype, condition, purposes, transfer) = match (controller % GROUP, modest) {
        (0, false) => ("MACAddress", "", "Analytics", Some(("", "FootfallAnalytics"))),
        (0, true) | (1, _) => ("MACAddress", "", "FootfallAnalytics", None),
        (2, false) => {
            ("PersonalData", "", "Marketing, Security", Some((" when certified = true", "PersonalisedOffers")))
        }
        (2, true) => ("PersonalData", "", "DirectMarketing", None),
        (_, false) => ("PersonalData", " when age >= 16", "PersonalisedOffers", None),
        (_, true) => ("MACAddress", " when age >= 16", "PersonalisedOffers", None),
    };
    let transfer = transfer
        .map(|(condition, purposes)| format!(" transfer to mall-{group}{condition} for {purposes} until {later}"));
    let transfer = transfer.unwrap_or_default();
    let entity = format!("shop-{controller}");
    parse(
        &format!("policy p {{ collect {datatype} by {entity}{condition} for {purposes} until {until}{transfer} }}"),
        vocabulary,
    )
}

/// What people may want of each group, from much to little.
pub struct Wishes(Vec<Vec<PolicyId>>);

impl Wishes {
    /// Makes the policies and puts them into the table.
    pub fn new(controllers: u32, policies: &mut Policies, vocabulary: &Vocabulary) -> Result<Self, SimulateError> {
        let every = "ServiceImprovement, Marketing, Security";
        let mut wishes = Vec::new();
        for group in 0..groups(controllers) {
            let who = format!("mall-{group}");
            let transfer = |condition: &str| format!("transfer to {who}{condition} for {every} until {FOR_LONG}");
            let texts = [
                format!("collect PersonalData by {who} for {every} until {FOR_LONG} {}", transfer("")),
                format!("collect PersonalData by {who} when age >= 18 for {every} until {FOR_LONG} {}", transfer("")),
                format!(
                    "collect PersonalData by {who} for {every} until {FOR_LONG} {}",
                    transfer(" when certified = true")
                ),
                format!("collect DeviceIdentifier by {who} for {every} until {FOR_LONG}"),
                format!("collect MACAddress by {who} when age >= 21 for Analytics until {FOR_LONG}"),
            ];
            let mut of_group = Vec::new();
            for text in texts {
                let policy = parse(&format!("policy p {{ {text} }}"), vocabulary)?;
                of_group.push(policies.intern(policy, vocabulary));
            }
            wishes.push(of_group);
        }
        Ok(Self(wishes))
    }

    /// Every policy.
    pub fn policies(&self) -> impl Iterator<Item = PolicyId> {
        self.0.iter().flatten().copied()
    }

    /// What somebody wants now: something of a few groups, sometimes nothing at all.
    pub fn choose(&self, rng: &mut Rng) -> Vec<PolicyId> {
        if rng.u8(..16) == 0 {
            return Vec::new();
        }
        let mut own = Vec::new();
        for _ in 0..OPINIONS {
            let of_group = rng.choice(&self.0);
            own.extend(of_group.and_then(|of_group| rng.choice(of_group)));
        }
        // Two opinions about one group: the other one stands for what she would allow as well.
        own.sort_unstable();
        own.dedup();
        own
    }
}

fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Policy, SimulateError> {
    let file = parse_file(text, vocabulary).map_err(SimulateError::malformed)?;
    match file.policies.into_iter().next().map(|source| source.choice) {
        Some(Choice::Policy(policy)) => Ok(policy),
        _ => Err(SimulateError::malformed("there is no policy")),
    }
}
