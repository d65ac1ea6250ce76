//! p ⊑ q allocates nothing: a gateway decides about every advertisement it hears.

#![expect(clippy::panic, reason = "a test may panic")]

use std::hint::black_box;

use allocation_counter::measure;
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::syntax::parse_file;
use pilot_core::vocabulary::Vocabulary;

const VOCABULARY: &str = r#"
[entities]
alphabet = []
google = ["alphabet"]
doubleclick = ["google"]
hotels = []
[datatypes]
address = []
city = ["address"]
[purposes]
ads = []
hotel_ads = ["ads"]
research = []
[attributes]
age = "number"
"cookie.secure" = "boolean"
"#;

/// Two policies with three transfer rules each; `when` stands in the first rule of each.
fn pair(vocabulary: &Vocabulary, when: [&str; 2], change: (&str, &str)) -> [Choice; 2] {
    let p = format!(
        "policy p {{ collect city by google for hotel_ads until 5
           transfer to google {} for hotel_ads, research until 4
           transfer to doubleclick for hotel_ads until 3
           transfer to hotels for ads until 2 }}",
        when[0]
    );
    let q = format!(
        "policy q {{ collect address by alphabet for ads until 6
           transfer to hotels for ads until 2
           transfer to alphabet {} for ads, research until 6
           transfer to google for ads until 6 }}",
        when[1]
    );
    let choice = |source: &str| {
        let file = parse_file(source, vocabulary).unwrap_or_else(|error| panic!("{error}"));
        file.policies.into_iter().next().map_or(Choice::Nothing, |policy| policy.choice)
    };
    [choice(&p.replacen(change.0, change.1, 1)), choice(&q)]
}

#[test]
fn subsumption_allocates_nothing() {
    let vocabulary = Vocabulary::from_toml(VOCABULARY).unwrap();
    let judge = Judge::new(&vocabulary);
    let adult = "when age >= 18 and cookie.secure";
    for (when, change, expected) in [
        // Unconditional, and refused by each clause in turn.
        (["", ""], ("", ""), true),
        (["", ""], ("collect city", "collect address"), true),
        (["", ""], ("by google", "by hotels"), false),
        (["", ""], ("for hotel_ads until 5", "for research until 5"), false),
        (["", ""], ("until 5", "until 7"), false),
        (["", ""], ("ads until 2", "ads until 3"), false),
        (["", ""], ("to doubleclick for hotel_ads", "to doubleclick for research"), true),
        (["", ""], ("to hotels for ads", "to hotels for research"), false),
        // The same condition in both, or none in q.
        ([adult, adult], ("", ""), true),
        ([adult, ""], ("", ""), true),
        // Conditions that have to be compared: the first time decides, the others remember.
        ([adult, "when age > 17"], ("", ""), true),
        ([adult, "when age > 18"], ("", ""), false),
        (["", adult], ("", ""), false),
    ] {
        let [p, q] = pair(&vocabulary, when, change);
        assert_eq!(p.subsumes(&q, &judge), expected, "{when:?} {change:?}");
        let allocations = measure(|| {
            black_box(black_box(&p).subsumes(black_box(&q), &judge));
        });
        assert_eq!(allocations.count_total, 0, "{when:?} {change:?}");
    }
}

/// The counter counts: deciding about a pair of conditions for the first time does allocate.
#[test]
fn what_is_decided_for_the_first_time_is_remembered() {
    let vocabulary = Vocabulary::from_toml(VOCABULARY).unwrap();
    let judge = Judge::new(&vocabulary);
    let [p, q] = pair(&vocabulary, ["when age >= 18", "when age > 17"], ("", ""));
    let count = || {
        let allocations = measure(|| {
            black_box(p.subsumes(&q, &judge));
        });
        allocations.count_total
    };
    assert!(count() > 0);
    assert_eq!(count(), 0);
}
