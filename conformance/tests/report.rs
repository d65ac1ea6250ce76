//! What an audit says, as text, as JSON and as a page.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "report/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::audit::html::html;
use conformance::audit::json::json;
use conformance::audit::report::{Report, Verdict};
use conformance::audit::text::text;
use pilot_core::diagnostic::is_invisible;
use roxmltree::{Document, Node, ParsingOptions};

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn all_text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// The page is well-formed XML. It is also kept, for people to look at.
#[test]
fn pages_are_well_formed() {
    for (name, report) in samples::all() {
        let page = html(&report);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.html"));
        fs::write(path, &page).unwrap();
        let page = parsed(&page);
        let ids: Vec<&str> = page.descendants().filter_map(|node| node.attribute("id")).collect();
        let distinct: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "{name}: an id twice");
        let named = page.descendants().filter_map(|node| node.attribute("aria-labelledby"));
        assert!(named.flat_map(str::split_whitespace).all(|id| distinct.contains(id)), "{name}");
    }
}

/// Nothing is loaded and nothing is run: no script, no address but places in the page itself.
#[test]
fn pages_are_self_contained() {
    for (name, report) in samples::all() {
        let page = html(&report);
        let page = parsed(&page);
        for node in page.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            assert!(
                !["script", "iframe", "object", "embed", "link", "img", "form", "base"].contains(&tag),
                "{name}: {tag}"
            );
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on") && attribute.name() != "style", "{name}: {attribute:?}");
                if ["src", "href", "xlink:href", "data"].contains(&attribute.name()) {
                    assert!(attribute.value().starts_with('#'), "{name}: {attribute:?}");
                }
            }
        }
        let style = page.descendants().find(|node| node.has_tag_name("style")).map(all_text).unwrap();
        assert!(!style.contains("url(") && !style.contains("@import"), "{name}");
        let metas: Vec<_> = page.descendants().filter(|node| node.has_tag_name("meta")).collect();
        let policy = metas.iter().find(|meta| meta.attribute("http-equiv") == Some("Content-Security-Policy")).unwrap();
        let expected = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
        assert_eq!(policy.attribute("content"), Some(expected), "{name}");
        assert!(metas.iter().any(|meta| meta.attribute("charset") == Some("utf-8")), "{name}");
    }
}

/// Whatever a name says, it stays a name, and all of it can be seen.
#[test]
fn foreign_text_stays_text() {
    let page = html(&samples::hostile());
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    let is_hidden = |character: char| character != '\n' && (is_invisible(character) || character == '\u{ffff}');
    assert!(!page.contains(is_hidden), "hidden characters on the page");
    assert!(page.contains("\\u{202e}gnp.exe\\u{7}\\u{1b}[2J\\u{ffff}"));
    let shown = text(&samples::hostile());
    assert!(!shown.contains(|character: char| character != '\n' && is_invisible(character)), "{shown}");
}

/// Each finding has its sentence, its rule, its premise and its place on the page; the first ones have charts.
#[test]
fn pages_have_every_finding() {
    for report in [samples::violating(), samples::unjudgeable(), samples::many()] {
        let page = html(&report);
        assert!(page.len() < 4 << 20, "{} bytes", page.len());
        let page = parsed(&page);
        let articles: Vec<_> = page.descendants().filter(|node| node.has_tag_name("article")).collect();
        assert_eq!(articles.len(), report.findings.len());
        for (finding, article) in report.findings.iter().zip(&articles) {
            let shown = all_text(*article);
            for part in [&finding.text, &finding.rule, &finding.premise, &finding.device] {
                assert!(shown.contains(part.as_str()), "{part} is not in {shown}");
            }
            let policy = report.policies.iter().find(|policy| Some(policy.digest) == finding.policy);
            assert!(policy.is_none_or(|policy| shown.contains(&policy.english)), "{shown}");
        }
        let charts = articles.iter().filter(|article| article.descendants().any(|node| node.has_tag_name("svg")));
        let expected = report.findings.iter().take(100).filter(|finding| !finding.chart.is_empty()).count();
        assert_eq!(charts.count(), expected);
    }
}

/// A chart has a lifeline per device, a line per message, and marks exactly one of them, not by colour alone.
#[test]
fn charts_mark_the_line_in_question() {
    let page = html(&samples::violating());
    let page = parsed(&page);
    let chart = page.descendants().find(|node| node.attribute("class") == Some("chart")).unwrap();
    let with =
        |class: &str| chart.descendants().filter(|node| node.attribute("class") == Some(class)).collect::<Vec<_>>();
    assert_eq!((with("life").len(), with("arrow").len(), with("tip").len()), (4, 5, 5));
    let marked = with("marked");
    assert_eq!(marked.len(), 1);
    assert!(all_text(marked[0]).contains("✗ send↑"), "{}", all_text(marked[0]));
}

/// Headings in order, tables with scopes, pictures with titles.
#[test]
fn pages_are_accessible() {
    for (name, report) in samples::all() {
        let page = html(&report);
        let page = parsed(&page);
        let heading = |node: Node<'_, '_>| match node.tag_name().name() {
            "h1" => Some(1),
            "h2" => Some(2),
            "h3" => Some(3),
            _ => None,
        };
        let headings: Vec<u32> = page.descendants().filter_map(heading).collect();
        assert_eq!(headings.iter().filter(|level| **level == 1).count(), 1, "{name}");
        assert!(headings.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{name}: {headings:?}");
        for node in page.descendants() {
            match node.tag_name().name() {
                "th" => assert!(["col", "row"].contains(&node.attribute("scope").unwrap()), "{name}"),
                "table" => assert!(node.children().any(|child| child.has_tag_name("caption")), "{name}"),
                "svg" if node.attribute("aria-hidden") != Some("true") => {
                    let has = |tag: &str| node.children().any(|child| child.has_tag_name(tag));
                    assert!(node.attribute("role") == Some("img") && has("title") && has("desc"), "{name}");
                }
                _ => {}
            }
        }
        assert_eq!(page.root_element().attribute("lang"), Some("en"));
    }
}

/// The verdict is the first word of the text and the headline of the page.
#[test]
fn the_verdict_comes_first() {
    let expected = |report: &Report| match report.verdict() {
        Verdict::Conforms => "conforms: ",
        Verdict::Violates => "violates: ",
        Verdict::Unjudgeable => "unjudgeable: ",
    };
    for (name, report) in samples::all() {
        let shown = text(&report);
        assert!(shown.starts_with(expected(&report)), "{name}: {shown}");
        let page = html(&report);
        let page = parsed(&page);
        let headline = page.descendants().find(|node| node.has_tag_name("h1")).map(all_text).unwrap();
        assert_eq!(headline.to_lowercase() + ": ", expected(&report), "{name}");
    }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every form says the same, and it agrees with the exit code.
#[test]
fn a_strict_audit_does_not_conform_where_something_could_not_be_judged() {
    let strict = samples::strict();
    let lenient = Report { is_strict: false, ..samples::strict() };
    assert_eq!((lenient.exit_code(), strict.exit_code()), (0, 2));
    assert!(text(&lenient).starts_with("conforms: ") && text(&strict).starts_with("unjudgeable: "));
    for shown in [text(&strict), html(&strict)] {
        assert!(on_one_line(&shown).contains("which `--strict` asks for"), "{shown}");
    }
    assert_eq!(json(&strict)["verdict"], "unjudgeable");
    assert_eq!(Report { is_strict: true, ..samples::conforming() }.exit_code(), 0);
}

/// Who shows only some findings is told of the others.
#[test]
fn a_filter_hides_no_verdict() {
    let report = samples::filtered();
    assert_eq!((report.verdict(), report.exit_code()), (Verdict::Violates, 1));
    let said = "Of violations, only those of mall-gate since 2026-06-01 10:00:00 UTC are shown; there are 2 others.";
    for shown in [text(&report), html(&report)] {
        assert!(on_one_line(&shown).contains(said), "{shown}");
    }
    assert_eq!(json(&report)["elsewhere"], 2);
}

/// A terminal of 100 columns is wide enough, and one screen holds an audit without findings.
#[test]
fn text_fits_on_a_terminal() {
    for (name, report) in samples::all() {
        let shown = text(&report);
        let wide = shown.lines().find(|line| line.chars().count() > 100);
        assert!(name == "hostile" || wide.is_none(), "{name}: {wide:?}");
    }
    assert!(text(&samples::conforming()).lines().count() <= 24);
}

#[test]
fn golden_text() {
    golden("report.txt", &text(&samples::violating()));
}

#[test]
fn golden_json() {
    golden("report.json", &format!("{:#}\n", json(&samples::violating())));
}

/// Compares with a file; with BLESS set, writes it.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), found);
}
