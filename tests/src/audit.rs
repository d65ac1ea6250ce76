//! Every mesh of the tests is audited.

use std::path::Path;

use conformance::audit::report::{Filter, Report, Verdict};
use conformance::audit::sources::{Given, SourceError, Sources};
use conformance::audit::{Progress, audit, text};
use consent_mesh::layout::Layout;

/// Judges everything that the daemons of a mesh recorded, with the openings of these subjects. `None` if nobody has run.
pub fn report(layout: &Layout, subjects: &[String]) -> Option<Report> {
    subjects.iter().for_each(|name| layout.open(name).unwrap());
    report_of(layout.root(), &layout.operator_file())
}

/// Judges everything below a directory that has the openings of subjects already.
pub fn report_of(root: &Path, operator: &Path) -> Option<Report> {
    let given = Given { operator: Some(operator.to_owned()), ..Given::default() };
    match Sources::find(&[root.to_owned()], &given) {
        Err(SourceError::NoTrace(_)) => None,
        sources => Some(audit(&sources.unwrap(), Filter::default(), &Progress::default())),
    }
}

/// Nothing is wrong with what they recorded.
pub fn assert_conforms(layout: &Layout, subjects: &[String]) {
    let Some(report) = report(layout, subjects) else { return };
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
}
