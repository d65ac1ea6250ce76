//! Conditions: evaluation against Table 3, and S10's entailment against brute force and against evaluation.

mod support;

use std::time::{Duration, Instant};

use pilot_core::condition::MAX_COMPARISONS;
use pilot_core::entailment::{Entailments, MAX_REMEMBERED};
use pilot_core::function::Function;
use pilot_core::syntax::parse_condition;
use pilot_core::value::{self, Kind};
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::{prop_assert, prop_assert_eq};

use support::choices::{Choices, cases};
use support::generate::{SMALL, WIDE, formula, value, values, words};
use support::named::{Formula, Term, Value, resolve_values};
use support::related::{changed_formula, looser_formula};
use support::{brute_force, for_all, hard_conditions, oracle};

/// As many choices as the largest of these cases use.
const CHOICES: usize = 200;

/// Two conditions that have something to do with each other.
fn pair(choices: &mut Choices) -> (Formula, Formula) {
    let from = formula(choices, SMALL);
    let to = match choices.below(4) {
        0 => looser_formula(&from, choices),
        1 => looser_formula(&looser_formula(&from, choices), choices),
        2 => changed_formula(&from, choices),
        _ => formula(choices, SMALL),
    };
    if choices.one_in(4) { (to, from) } else { (from, to) }
}

fn vocabulary() -> Vocabulary {
    // Which names the orders have is of no matter to conditions.
    words(&mut Choices::default()).vocabulary()
}

/// Reference: Def. 8 and Table 3; S18 for ⊥.
#[test]
fn evaluation_agrees_with_table_3() {
    let cases = cases(CHOICES, |choices| {
        let shape = if choices.one_in(2) { SMALL } else { WIDE };
        (formula(choices, shape), values(choices))
    });
    let (words, vocabulary) = (words(&mut Choices::default()), vocabulary());
    for_all(&cases, 0.3..=0.7, |(formula, values)| {
        let expected = oracle::eval(&values, &formula, &words);
        let found = formula.resolve(&vocabulary).evaluate(&resolve_values(&values, &vocabulary));
        prop_assert_eq!(found, expected);
        Ok(expected == Some(true))
    });
}

/// Reference: Table 3: the interpretations of functions.
#[test]
fn functions_agree_with_the_slow_twin() {
    let cases = cases(CHOICES, |choices| {
        let function = choices.pick(&Function::ALL);
        let arguments = function.parameters().iter().map(|kind| match (function, kind) {
            // A place on the globe.
            (Function::Distance, _) => Value::Number((choices.any_u64() % 360_000_000) as i64 - 180_000_000),
            _ => value(choices, *kind, WIDE),
        });
        let arguments: Vec<Value> = arguments.collect();
        (function, arguments)
    });
    // Yes: the result is a number.
    for_all(&cases, 0.6..=0.8, |(function, arguments)| {
        let expected = oracle::call(function.name(), &arguments);
        let resolved: Vec<value::Value> = arguments.iter().map(Value::resolve).collect();
        let found = function.apply(&resolved).unwrap();
        if let (Function::Distance, value::Value::Number(found), Value::Number(expected)) =
            (function, &found, &expected)
        {
            // Two formulas, each rounded in its own way: a centimetre is what they may differ by.
            prop_assert!(found.millionths().abs_diff(*expected) < 10_000, "{found} and {expected}");
        } else {
            prop_assert!(found == expected.resolve(), "{expected:?}");
        }
        Ok(found.kind() == Kind::Number)
    });
}

/// Reference: S10.
#[test]
fn entailment_agrees_with_brute_force() {
    let vocabulary = vocabulary();
    for_all(&cases(CHOICES, pair), 0.3..=0.7, |(from, to)| {
        let expected = brute_force::entails(&from, &to);
        let (from, to) = (from.resolve(&vocabulary), to.resolve(&vocabulary));
        prop_assert_eq!(from.entails(&to), expected);
        let remembered = Entailments::default();
        prop_assert_eq!([remembered.entails(&from, &to), remembered.entails(&from, &to)], [expected; 2]);
        Ok(expected)
    });
}

/// More unknowns than the search looks at together: nine atoms, each in several places.
#[test]
fn entailment_of_crowded_conditions_agrees_with_brute_force() {
    fn crowd(choices: &mut Choices, leaves: usize) -> Formula {
        if leaves == 1 {
            let at = choices.below(9);
            let [left, right] = [at, at + 16].map(|at| Term::Variable(format!("x{at}")));
            let atom = Formula::Compare(left, "<", right);
            return if choices.one_in(2) { Formula::Not(Box::new(atom)) } else { atom };
        }
        let here = 1 + choices.below(leaves - 1);
        let sides = (Box::new(crowd(choices, here)), Box::new(crowd(choices, leaves - here)));
        if choices.one_in(2) { Formula::And(sides.0, sides.1) } else { Formula::Or(sides.0, sides.1) }
    }
    let cases = cases(CHOICES, |choices| {
        // All atoms are known to the first condition, whatever it says about them.
        let known = (0..9).map(|at| [at, at + 16].map(|at| Term::Variable(format!("x{at}"))));
        let known = known.map(|[left, right]| Formula::Compare(left, "<", right));
        let known = known.reduce(|all, atom| Formula::Or(Box::new(all), Box::new(atom))).unwrap_or(Formula::True);
        let from = Formula::And(Box::new(crowd(choices, 7)), Box::new(known));
        (from, crowd(choices, 12))
    });
    let vocabulary = Vocabulary::from_toml(&hard_conditions::attributes()).unwrap();
    for_all(&cases, 0.1..=0.9, |(from, to)| {
        let expected = brute_force::entails(&from, &to);
        prop_assert_eq!(from.resolve(&vocabulary).entails(&to.resolve(&vocabulary)), expected);
        Ok(expected)
    });
}

/// A condition that nothing satisfies is what `lint` warns about.
#[test]
fn satisfiability_agrees_with_brute_force() {
    let vocabulary = vocabulary();
    for_all(&cases(CHOICES, |choices| formula(choices, SMALL)), 0.6..=0.9, |formula| {
        let expected = brute_force::is_satisfiable(&formula);
        prop_assert_eq!(formula.resolve(&vocabulary).is_satisfiable(), expected);
        Ok(expected)
    });
}

/// Reference: S10: whoever sends under c₁ also keeps to c₂.
#[test]
fn entailment_is_sound_for_evaluation() {
    let cases = cases(CHOICES, |choices| {
        let from = formula(choices, SMALL);
        let to = looser_formula(&from, choices);
        (from, to, values(choices))
    });
    let vocabulary = vocabulary();
    // Yes: two different conditions, the first of which entails the second and holds.
    for_all(&cases, 0.1..=0.9, |(from, to, values)| {
        let (from, to) = (from.resolve(&vocabulary), to.resolve(&vocabulary));
        let values = resolve_values(&values, &vocabulary);
        let is_telling = from != to && from.entails(&to) && from.evaluate(&values) == Some(true);
        prop_assert!(!is_telling || to.evaluate(&values) == Some(true));
        Ok(is_telling)
    });
}

#[test]
fn entailment_is_reflexive() {
    let vocabulary = vocabulary();
    for_all(&cases(4 * CHOICES, |choices| formula(choices, WIDE)), 0.8..=1.0, |formula| {
        let condition = formula.resolve(&vocabulary);
        prop_assert!(condition.entails(&condition));
        // The same said in another way, which is not answered by a look.
        let twice_denied = Formula::Not(Box::new(Formula::Not(Box::new(formula.clone()))));
        if twice_denied.parts() <= pilot_core::condition::MAX_NODES {
            let twice_denied = twice_denied.resolve(&vocabulary);
            prop_assert!(condition.entails(&twice_denied) && twice_denied.entails(&condition));
        }
        Ok(formula.comparisons() > 0)
    });
}

/// Reference: S10: or ⊑ would not be transitive.
#[test]
fn entailment_is_transitive() {
    let cases = cases(CHOICES, |choices| {
        let (first, second) = pair(choices);
        let third =
            if choices.one_in(3) { changed_formula(&second, choices) } else { looser_formula(&second, choices) };
        (first, second, third)
    });
    let vocabulary = vocabulary();
    for_all(&cases, 0.15..=0.8, |(first, second, third)| {
        let [first, second, third] = [first, second, third].map(|formula| formula.resolve(&vocabulary));
        let is_chain = first.entails(&second) && second.entails(&third);
        prop_assert!(!is_chain || first.entails(&third));
        Ok(is_chain && first != second && second != third)
    });
}

/// Reference: S10, the fixed theory, case by case.
#[test]
fn the_theory_of_entailment() {
    let vocabulary = vocabulary();
    let condition = |text: &str| parse_condition(text, &vocabulary).unwrap_or_else(|error| panic!("{error}"));
    for (from, to, expected) in [
        ("age >= 18", "true", true),
        ("true", "age >= 18", false),
        ("age >= 18", "age > 17", true),
        // Numbers are dense: 17.5.
        ("age > 17", "age >= 18", false),
        ("age = 18", "age >= 18 and not age < 18 and age != 17", true),
        ("age >= 18 and age <= 18", "18 = age", true),
        ("now < 2024-12-21", "now <= 2024-12-21", true),
        ("now > 2024-12-20T23:59:59Z", "now >= 2024-12-21", false),
        // Texts have = and != only, and there is always another one.
        (r#"city = "Paris""#, r#"city != "Rome""#, true),
        (r#"city != "Rome""#, r#"city = "Paris" or city != "Paris""#, true),
        (r#"city != "Rome" and city != "Paris""#, r#"city = "Oslo""#, false),
        // Booleans are two.
        ("member != true", "member = false", true),
        ("member = member", "member or not member", true),
        // What is not known cannot be vouched for: ⊥ is strict, even where logic would not ask.
        ("age >= 18", "age >= 18 or level = 1", false),
        ("false", "age >= 18", false),
        ("age < 1 and age > 2", "age = 7", true),
        // Terms are variables of their own, whatever is in them.
        ("hour(now) >= 9", "hour(now) > 8", true),
        ("hour(now) = 25", "hour(now) < 24", false),
        ("now = 2024-12-21T10:00:00Z and hour(now) >= 0", "hour(now) = 10", false),
        ("hour(now) >= 9", "now >= 1970-01-01 or now < 1970-01-01", true),
        ("now >= 1970-01-01", "hour(now) >= 9 or hour(now) < 9", false),
        // A term without variables is its value.
        ("level = hour(2024-12-21T10:00:00Z)", "level = 10", true),
        (r#"contains("Paris", "Par") and age = 1"#, "age = 1", true),
        // A comparison of two of them is an atom of its own.
        ("age < level", "age < level or age = 1", true),
        ("age < level", "level > age", false),
        ("age < level", "age <= level", false),
        ("age = age", "true", true),
        ("age >= 18 and level >= 18", "age = age", false),
    ] {
        assert_eq!(condition(from).entails(&condition(to)), expected, "`{from}` ⟹ `{to}`");
    }
}

/// Entailments are remembered up to a limit, then all are forgotten; no answer depends on it.
#[test]
fn a_full_memory_changes_no_answer() {
    let vocabulary = vocabulary();
    let condition = |text: String| parse_condition(&text, &vocabulary).unwrap();
    let remembered = Entailments::default();
    let from = condition("age = 7".to_string());
    for number in 0..MAX_REMEMBERED + 10 {
        let to = condition(format!("age != {number}"));
        assert_eq!(remembered.entails(&from, &to), number != 7);
    }
    assert!(!remembered.entails(&from, &condition("age != 7".to_string())));
}

/// Whoever publishes a policy must not be able to stop those who read it.
#[test]
fn the_hardest_conditions_are_decided_soon() {
    let vocabulary = Vocabulary::from_toml(&hard_conditions::attributes()).unwrap();
    for (from, to) in hard_conditions::pairs() {
        let [from, to] = [&from, &to].map(|text| parse_condition(text, &vocabulary).unwrap());
        let start = Instant::now();
        assert!(from.entails(&to));
        // A millisecond or two; a search without its shortcuts takes minutes.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
    let too_many: Vec<String> = (0..=MAX_COMPARISONS).map(|at| format!("x{at} < 1")).collect();
    assert!(parse_condition(&too_many.join(" or "), &vocabulary).is_err());
}
