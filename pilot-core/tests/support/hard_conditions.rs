//! The largest conditions there are, made so that no early answer helps: a combination of their choices that
//! satisfies the first and not the second, if there were one, would be the last to be found.

/// The numbers x0 to x31.
pub fn attributes() -> String {
    let lines: Vec<String> = (0..32).map(|at| format!("x{at} = \"number\"\n")).collect();
    format!("[attributes]\n{}", lines.concat())
}

/// Pairs of conditions over them; the first entails the second.
pub fn pairs() -> [(String, String); 3] {
    let each = |count: usize, joint: &str, comparison: &dyn Fn(usize) -> String| {
        (0..count).map(comparison).collect::<Vec<_>>().join(joint)
    };
    [
        // Sixteen variables with two choices each; the last one contradicts itself.
        (
            format!("({}) and x15 < 1", each(15, " or ", &|at| format!("x{at} < 1"))),
            format!("({}) or x15 <= 2", each(15, " and ", &|at| format!("x{at} <= 2"))),
        ),
        // Ten variables with three choices each.
        (
            format!("({}) and x0 = 3", each(15, " or ", &|at| format!("x{} = {}", 1 + at % 9, at / 9))),
            format!(
                "({}) or x0 != 1 or x0 != 2",
                each(12, " and ", &|at| format!("x{} != {}", 1 + (at + 15) % 9, (at + 15) / 9))
            ),
        ),
        // Thirty-two independent atoms.
        (
            each(16, " or ", &|at| format!("x{at} < x{}", at + 16)),
            format!("({}) or x0 = 1 or x0 != 1", each(14, " and ", &|at| format!("x{at} > x{}", at + 16))),
        ),
    ]
}
