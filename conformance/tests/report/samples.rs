//! Reports of every kind.

use conformance::audit::report::{
    Arrow, Class, Ending, Evidence, Figures, Filter, Finding, Findings, Holding, Inputs, MAX_FINDINGS, Moment, Open,
    PolicyText, Report, Trace, Unjudged, rules,
};
use pilot_core::codec::Digest;
use pilot_core::value::Time;

/// What a trace could contain to harm those who read the report.
pub(crate) const HOSTILE: &str = "</bdi><script>alert('x')</script>&\"\u{202e}gnp.exe\u{7}\u{1b}[2J\u{ffff}";

/// 2026-06-01T09:00:00Z and some seconds.
pub(crate) fn at(seconds: u64) -> Time {
    Time::from_unix(1_780_304_400 + seconds)
}

const MALL: Digest = Digest([0x7f; 32]);
const SHOP: Digest = Digest([0x6c; 32]);

pub(crate) fn conforming() -> Report {
    let trace = |device: &str, graph: &str, records, end| Trace {
        device: device.into(),
        directory: format!("traces/{device}"),
        graph: graph.into(),
        records,
        period: Some((at(0), at(5_400))),
        head: Some(format!("{records:064x}")),
        end,
    };
    let open = |records, bytes| Ending::Open(Open { records, bytes });
    Report {
        evidence: Evidence { witnessed: 212, signed: 64, attested: 9 },
        inputs: Inputs {
            meshes: vec![3, 4],
            operator: Some(format!("ed25519:{}", "5b".repeat(32))),
            keys: 2,
            openings: 2,
            are_openings_found: true,
            consents: 64,
        },
        traces: vec![
            trace("alice", "indirect-subject", 1_730, Ending::Closed),
            trace("bob", "indirect-subject", 1_391, open(0, 0)),
            Trace { period: None, head: None, ..trace("carol", "indirect-subject", 0, Ending::Unread) },
            trace("mall-gate", "indirect-controller", 6_204, Ending::Closed),
            trace("registry", "repository", 88, Ending::Closed),
            trace("shop-gate", "indirect-controller", 2_955, open(3, 612)),
            Trace {
                directory: "old/shop-gate".into(),
                ..trace("shop-gate", "indirect-controller", 1_204, Ending::CopyOf("traces/shop-gate".into()))
            },
        ],
        figures: Figures {
            records: 12_368,
            steps: 11_902,
            events: 873,
            accepted: 285,
            transferred: 31,
            erased: 164,
            withdrawn: 12,
            elided: 1_048_211,
            matched: 2_406,
            attested_conditions: 40,
            signatures: 97,
        },
        timeline: (0..180).map(moment).collect(),
        policies: policies(),
        holdings: vec![
            Holding { device: "mall-gate".into(), policy: MALL, items: 131, until: at(86_400 * 30) },
            Holding { device: "shop-gate".into(), policy: SHOP, items: 21, until: at(86_400 * 7) },
        ],
        ..Report::default()
    }
}

/// A busy morning.
fn moment(number: u64) -> Moment {
    let wave = 40 + (number * 37 % 53) + if (60..110).contains(&number) { 70 } else { 0 };
    Moment {
        from: at(number * 30),
        seconds: 30,
        steps: wave,
        accepted: if number % 7 == 3 { number % 5 + 1 } else { 0 },
        erased: if number > 90 && number.is_multiple_of(11) { 1 + number % 9 } else { 0 },
        findings: 0,
    }
}

fn policies() -> Vec<PolicyText> {
    let english = |who: &str, more: &str| {
        format!(
            "Data of type MACAddress can be collected by {who} and used for analytics purposes until 01/07/2026.{more}"
        )
    };
    vec![
        PolicyText {
            digest: MALL,
            english: english(
                "mall",
                " This data may be transferred by mall if age is at least 18 to shop which may use it for ads purposes \
                 until 08/06/2026.",
            ),
        },
        PolicyText { digest: SHOP, english: english("shop", "") },
    ]
}

fn arrow(record: u64, device: &str, peer: Option<&str>, is_sent: bool, label: &str) -> Arrow {
    let (time, device, peer) = (at(record * 3), device.to_string(), peer.map(str::to_string));
    Arrow { record, time, device, peer, is_sent, label: label.into() }
}

/// One of each kind: a transfer that nobody allowed, data kept too long, a changed record.
pub(crate) fn violating() -> Report {
    let mut report = conforming();
    let finding = |class, device: &str, record: u64, rule: &str, premise: &str, text: &str| Finding {
        class,
        device: device.into(),
        record,
        time: Some(at(record * 3)),
        rule: rule.into(),
        premise: premise.into(),
        text: text.into(),
        policy: None,
        chart: Vec::new(),
    };
    report.findings = vec![
        Finding {
            policy: Some(MALL),
            chart: vec![
                arrow(1_198, "mall-gate", Some("registry"), true, "uploadPolicy↑"),
                arrow(1_201, "mall-gate", Some("owner of 9c01…"), false, "broadcast↓"),
                arrow(1_202, "mall-gate", None, true, "τ"),
                arrow(1_203, "mall-gate", Some("advertiser-gate"), false, "request↓"),
                arrow(1_204, "mall-gate", Some("advertiser-gate"), true, "send↑"),
            ],
            ..finding(
                Class::Violation,
                "mall-gate",
                1_204,
                rules::TRANSFER,
                "p_rcv ⊑ (p.t, tr, p.TR): no active transfer rule allows the receiver's policy",
                "The mall's gate handed a person's address on to the advertiser, although her policy lets only the shop \
                 have it.",
            )
        },
        Finding {
            policy: Some(SHOP),
            chart: vec![
                arrow(812, "shop-gate", Some("connection 204ff2c1…"), false, "broadcast↓"),
                arrow(1_010, "shop-gate", None, true, "expire(item 9ae02c37…)"),
            ],
            ..finding(
                Class::Violation,
                "shop-gate",
                1_010,
                "requirement-4",
                "time < p.dcr.rt: the policy's deadline has passed",
                "The shop's gate still held an address 41 seconds after the deadline of the policy under which it was \
                 collected.",
            )
        },
        finding(
            Class::Integrity,
            "registry",
            57,
            rules::CHAIN,
            "the trace is as the device wrote it",
            "Record 57 of the registry's trace was changed after it was written; from here on nothing in it is judged.",
        ),
    ];
    report.unjudged = vec![
        Unjudged {
            device: "mall-gate".into(),
            premise: "owner(i) = sndr".into(),
            why: "the subject's trace was not given to the auditor".into(),
            count: 73,
        },
        Unjudged {
            device: "shop-gate".into(),
            premise: "activePolicy(p_sndr)".into(),
            why: "the condition is about a value that is in no trace".into(),
            count: 1,
        },
    ];
    for moment in report.timeline.iter_mut().filter(|moment| [at(3_600), at(3_030)].contains(&moment.from)) {
        moment.findings = 1;
    }
    report
}

/// Nothing can be believed.
pub(crate) fn unjudgeable() -> Report {
    let found = Finding {
        class: Class::Integrity,
        device: "traces/unknown".into(),
        record: 0,
        time: None,
        rule: rules::SIGNATURE.into(),
        premise: "the key of mall-gate is not known".into(),
        text: "Nobody has said with which key mall-gate signs, so its trace cannot be believed.".into(),
        policy: None,
        chart: Vec::new(),
    };
    Report { findings: vec![found], ..Report::default() }
}

/// Nothing is wrong, but not everything could be judged, and that was asked for.
pub(crate) fn strict() -> Report {
    Report { is_strict: true, unjudged: violating().unjudged, ..conforming() }
}

/// What is wrong is elsewhere.
pub(crate) fn filtered() -> Report {
    Report {
        filter: Filter { since: Some(at(3_600)), devices: vec!["mall-gate".into()] },
        elsewhere: 2,
        ..conforming()
    }
}

/// As many findings as a report shows, and more.
pub(crate) fn many() -> Report {
    let mut report = violating();
    let some = report.findings.clone();
    let numbered = |(number, finding): (u64, &Finding)| {
        let text = format!("{} (case {number})", finding.text);
        Finding { record: finding.record + number, text, ..finding.clone() }
    };
    report.findings = (1..).zip(some.iter().cycle()).take(MAX_FINDINGS).map(numbered).collect();
    report.more = Findings { violations: 5_017, integrity: 1 };
    report
}

/// Every name and every sentence is an attack.
pub(crate) fn hostile() -> Report {
    let mut report = violating();
    for finding in &mut report.findings {
        let Finding { device, rule, premise, text, chart, .. } = finding;
        for part in [device, rule, premise, text] {
            *part = format!("{part}{HOSTILE}");
        }
        for arrow in chart {
            arrow.device += HOSTILE;
            arrow.label += HOSTILE;
            arrow.peer.iter_mut().for_each(|peer| *peer += HOSTILE);
            arrow.time = Time::from_unix(u64::MAX);
        }
    }
    for trace in &mut report.traces {
        trace.period = Some((Time::default(), Time::from_unix(u64::MAX)));
        if let Ending::CopyOf(other) | Ending::Contradicts(other) = &mut trace.end {
            *other += HOSTILE;
        }
        [&mut trace.device, &mut trace.directory, &mut trace.graph].into_iter().for_each(|part| *part += HOSTILE);
    }
    for unjudged in &mut report.unjudged {
        let Unjudged { device, premise, why, .. } = unjudged;
        [device, premise, why].into_iter().for_each(|part| *part += HOSTILE);
    }
    report.policies.iter_mut().for_each(|policy| policy.english += HOSTILE);
    report.holdings.iter_mut().for_each(|holding| holding.device += HOSTILE);
    let last = Moment { from: Time::from_unix(u64::MAX), seconds: u64::MAX, steps: u64::MAX, ..Moment::default() };
    report.timeline.push(last);
    report
}

/// All of them, with names.
pub(crate) fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("conforming", conforming()),
        ("violating", violating()),
        ("unjudgeable", unjudgeable()),
        ("strict", strict()),
        ("filtered", filtered()),
        ("many", many()),
        ("hostile", hostile()),
        ("empty", Report::default()),
    ]
}
