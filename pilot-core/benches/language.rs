//! How long the language's decisions and forms take. Speed is judged by ratios within one run; the summary at the
//! end prints them beside the figures the project promises.

#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a benchmark may panic")]

#[path = "../tests/support/hard_conditions.rs"]
mod hard_conditions;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group};
use pilot_core::active::{Communication, active_policy};
use pilot_core::codec::{decode, digest, encode};
use pilot_core::condition::Condition;
use pilot_core::evaluate::Values;
use pilot_core::explain::explain;
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::syntax::format::policy_text;
use pilot_core::syntax::{json, parse_condition, parse_file};
use pilot_core::value::{Number, Time, Value};
use pilot_core::vocabulary::Vocabulary;

/// Ten names per order, and as many more as one asks for.
fn vocabulary(names_per_order: usize) -> Vocabulary {
    Vocabulary::from_toml(&vocabulary_toml(names_per_order)).unwrap()
}

fn vocabulary_toml(names_per_order: usize) -> String {
    let mut toml = String::new();
    for order in ["entities", "datatypes", "purposes"] {
        // Name n under name n / 3: at a depth of nine for ten thousand. Padded, so that ids follow the numbers.
        writeln!(toml, "[{order}]\nn00000 = []").unwrap();
        for at in 1..names_per_order {
            writeln!(toml, "n{at:05} = [\"n{:05}\"]", at / 3).unwrap();
        }
    }
    toml.push_str("[attributes]\nage = \"number\"\nnow = \"time\"\n\"cookie.secure\" = \"boolean\"\n");
    toml
}

/// p ⊑ q with three transfer rules each, a stranger that q refuses, and p and q with conditions.
struct Policies {
    p: Choice,
    q: Choice,
    refused: Choice,
    p_when: Choice,
    q_when: Choice,
}

const P: &str = "collect n00009 by n00008 for n00004, n00005 until 50
    transfer to n00005 for n00003 until 40
    transfer to n00006 WHEN for n00009 until 30
    transfer to n00004 for n00004, n00008 until 20";
const Q: &str = "collect n00001 by n00002 for n00001 until 60
    transfer to n00001 for n00001 until 60
    transfer to n00002 WHEN for n00001, n00003 until 60
    transfer to n00004 for n00000 until 60";

fn policies(vocabulary: &Vocabulary) -> Policies {
    let choice = |text: &str, when: &str| {
        let source = format!("policy p {{ {} }}", text.replace("WHEN", when));
        parse_file(&source, vocabulary).unwrap_or_else(|error| panic!("{error}")).policies[0].choice.clone()
    };
    Policies {
        p: choice(P, ""),
        q: choice(Q, ""),
        refused: choice(&P.replace("n00003 until 40", "n00002 until 40"), ""),
        p_when: choice(P, "when age >= 18 and cookie.secure"),
        q_when: choice(Q, "when age > 17"),
    }
}

fn subsumption(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("subsumption");
    for names in [10, 10_000] {
        let vocabulary = vocabulary(names);
        let judge = Judge::new(&vocabulary);
        let Policies { p, q, refused, p_when, q_when } = policies(&vocabulary);
        assert!(p.subsumes(&q, &judge) && !refused.subsumes(&q, &judge) && p_when.subsumes(&q_when, &judge));
        group.bench_function(format!("accepted, {names} names"), |b| {
            b.iter(|| black_box(&p).subsumes(black_box(&q), &judge));
        });
        group.bench_function(format!("refused, {names} names"), |b| {
            b.iter(|| black_box(&refused).subsumes(black_box(&q), &judge));
        });
        group.bench_function(format!("remembered entailment, {names} names"), |b| {
            b.iter(|| black_box(&p_when).subsumes(black_box(&q_when), &judge));
        });
        group.bench_function(format!("explained, {names} names"), |b| {
            b.iter(|| explain(black_box(&refused), black_box(&q), &judge));
        });
    }
}

fn entailment(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("entailment");
    let typical = vocabulary(10);
    let [from, to] = ["age >= 18 and cookie.secure", "age > 17"].map(|text| parse_condition(text, &typical).unwrap());
    group.bench_function("typical", |b| b.iter(|| black_box(&from).entails(black_box(&to))));
    for (name, (from, to)) in ["hardest, 2 choices", "hardest, 3 choices", "hardest, atoms"].iter().zip(hard_pairs()) {
        group.bench_function(*name, |b| b.iter(|| black_box(&from).entails(black_box(&to))));
    }
}

fn hard_pairs() -> [(Condition, Condition); 3] {
    let vocabulary = Vocabulary::from_toml(&hard_conditions::attributes()).unwrap();
    let parse = |text: &str| parse_condition(text, &vocabulary).unwrap();
    hard_conditions::pairs().map(|(from, to)| (parse(&from), parse(&to)))
}

fn forms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forms");
    let vocabulary = vocabulary(1_000);
    let Policies { p_when: choice, .. } = policies(&vocabulary);
    let text = policy_text("p", &choice, &vocabulary);
    let json_text = json::text(&choice, &vocabulary);
    let bytes = encode(&choice, &vocabulary);
    group.bench_function("parse text", |b| b.iter(|| parse_file(black_box(&text), &vocabulary)));
    group.bench_function("parse json", |b| b.iter(|| json::parse(black_box(&json_text), &vocabulary)));
    group.bench_function("decode cbor", |b| b.iter(|| decode(black_box(&bytes), &vocabulary)));
    group.bench_function("write text", |b| b.iter(|| policy_text("p", black_box(&choice), &vocabulary)));
    group.bench_function("write json", |b| b.iter(|| json::text(black_box(&choice), &vocabulary)));
    group.bench_function("encode cbor", |b| b.iter(|| encode(black_box(&choice), &vocabulary)));
    let judge = Judge::new(&vocabulary);
    let line = format!("{{\"p\":{json_text},\"q\":{json_text}}}");
    group.bench_function("parse a json pair and decide", |b| {
        b.iter(|| json::parse_pair(black_box(&line), &vocabulary).map(|(p, q)| p.subsumes(&q, &judge)));
    });
    group.bench_function("digest", |b| b.iter(|| digest(black_box(&choice), &vocabulary)));
}

fn activity(criterion: &mut Criterion) {
    let vocabulary = vocabulary(10_000);
    let source = format!(
        "policy p {{ {} }}",
        P.replacen(" for", " when age >= 18 and cookie.secure for", 1).replace("WHEN", "")
    );
    let file = parse_file(&source, &vocabulary).unwrap_or_else(|error| panic!("{error}"));
    let policy = file.policies[0].choice.policy().unwrap();
    let variable = |name: &str| vocabulary.variable(name).unwrap().0;
    let values = Values::from([
        (variable("age"), Value::Number(Number::whole(20))),
        (variable("cookie.secure"), Value::Boolean(true)),
    ]);
    let communication = Communication {
        datatype: policy.datatype(),
        receiver: policy.collection().entity,
        time: Time::from_unix(1),
        values: &values,
    };
    assert_eq!(active_policy(policy, &communication, &vocabulary), Ok(()));
    criterion.bench_function("activity/active policy", |b| {
        b.iter(|| active_policy(black_box(policy), black_box(&communication), &vocabulary));
    });
}

fn loading(criterion: &mut Criterion) {
    let toml = vocabulary_toml(10_000);
    let mut group = criterion.benchmark_group("vocabulary");
    group.sample_size(10);
    group.bench_function("built-in", |b| b.iter(Vocabulary::built_in));
    group.bench_function("10,000 names per order", |b| b.iter(|| Vocabulary::from_toml(black_box(&toml))));
}

/// What the project promises, measured once more in one run.
fn summary() {
    let (small, large) = (vocabulary(10), vocabulary(10_000));
    let in_small = policies(&small);
    let in_large = policies(&large);
    let (judge, large_judge) = (Judge::new(&small), Judge::new(&large));
    let accepted = time(|| in_small.p.subsumes(black_box(&in_small.q), &judge));
    let refused = time(|| in_small.refused.subsumes(black_box(&in_small.q), &judge));
    let explained = time(|| explain(&in_small.refused, black_box(&in_small.q), &judge));
    let accepted_in_large = time(|| in_large.p.subsumes(black_box(&in_large.q), &large_judge));
    let hardest = hard_pairs().iter().map(|(from, to)| time(|| from.entails(black_box(to)))).max().unwrap_or_default();
    let toml = vocabulary_toml(10_000);
    let loaded = time(|| Vocabulary::from_toml(black_box(&toml)));
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();

    println!("p ⊑ q, 3 transfer rules        {accepted:>10.1?}   promised: 50 ns");
    println!("  refused                      {refused:>10.1?}   {:.1} ×", ratio(refused, accepted));
    println!("  refused and explained        {explained:>10.1?}   {:.1} ×, promised: 1 µs", ratio(explained, accepted));
    println!(
        "  with 10,000 names            {accepted_in_large:>10.1?}   {:.2} ×, promised: 2 ×",
        ratio(accepted_in_large, accepted)
    );
    println!("hardest entailment             {hardest:>10.1?}");
    println!("10,000 names per order loaded  {loaded:>10.1?}");
}

/// The fastest of several rounds, for one call: what disturbs a round only makes it slower.
fn time<T>(mut call: impl FnMut() -> T) -> Duration {
    let mut calls = 1_u32;
    loop {
        let round = |call: &mut dyn FnMut() -> T| {
            let start = Instant::now();
            (0..calls).for_each(|_| drop(black_box(call())));
            start.elapsed()
        };
        if round(&mut call) > Duration::from_millis(5) {
            return (0..10).map(|_| round(&mut call)).min().unwrap_or_default() / calls;
        }
        calls *= 2;
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = subsumption, entailment, forms, activity, loading
}

fn main() {
    benches();
    summary();
}
