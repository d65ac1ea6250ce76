//! What happened when: one lane for each thing that is counted, under the same hours.
//!
//! A lane is stretched to the width of the page, so the words stand beside it and not in it.

use super::super::report::{Moment, Report};
use super::{escape, section as page_section};
use crate::plain::{counted, grouped, moment};

/// The width of a lane, in its own units.
const WIDTH: f64 = 1000.0;
/// The height of a lane, likewise.
const HEIGHT: f64 = 100.0;
/// What is there can be seen, however little it is.
const LEAST: f64 = 4.0;

struct Lane {
    id: &'static str,
    title: &'static str,
    count: fn(&Moment) -> u64,
}

const LANES: [Lane; 4] = [
    Lane { id: "steps", title: "Steps", count: |moment| moment.steps },
    Lane { id: "accepted", title: "Items accepted or received", count: |moment| moment.accepted },
    Lane { id: "erased", title: "Items erased", count: |moment| moment.erased },
    Lane { id: "found", title: "Findings", count: |moment| moment.findings },
];

pub(super) fn section(report: &Report) -> String {
    let moments = &report.timeline;
    let first = moments.iter().map(|moment| moment.from).min();
    let last = moments.iter().map(end).max();
    let (Some(first), Some(last)) = (first, last) else { return String::new() };
    let span = last.saturating_sub(first.unix()).max(1);
    let lanes: String = LANES.iter().map(|lane| lane.draw(moments, first.unix(), span)).collect();
    let longest = moments.iter().map(|moment| moment.seconds).max().unwrap_or(0).max(1);
    let body = format!(
        "<div class=\"timeline\">\n{lanes}<p class=\"axis\"><span>{}</span> <span>{}</span></p>\n</div>\n\
         <p class=\"note\">Each bar stands for {}. Each lane has its own scale.</p>\n",
        escape(&moment(first)),
        escape(&moment(pilot_core::value::Time::from_unix(last))),
        duration(longest),
    );
    page_section("timeline", "What happened when", &body)
}

fn end(moment: &Moment) -> u64 {
    moment.from.unix().saturating_add(moment.seconds.max(1))
}

impl Lane {
    fn draw(&self, moments: &[Moment], first: u64, span: u64) -> String {
        let total = moments.iter().map(self.count).fold(0, u64::saturating_add);
        let highest = moments.iter().map(self.count).max().unwrap_or(0);
        let scale = |seconds: u64| seconds as f64 / span as f64 * WIDTH;
        let mut bars = String::new();
        for moment in moments.iter().filter(|moment| (self.count)(moment) > 0) {
            let x = scale(moment.from.unix().saturating_sub(first));
            let width = (scale(moment.seconds) * 0.86).clamp(LEAST, WIDTH);
            let height = ((self.count)(moment) as f64 / highest.max(1) as f64 * HEIGHT).max(LEAST);
            let (x, y) = (x.min(WIDTH - width), HEIGHT - height);
            bars += &format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" />");
        }
        let (id, title) = (self.id, self.title);
        let most = if total > 0 { format!(", highest bar {}", grouped(highest)) } else { String::new() };
        let told = format!("{} in all{most}", grouped(total));
        format!(
            "<div class=\"lane\">\n<p><b>{title}</b> <span>{told}</span></p>\n\
             <svg class=\"{id}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-labelledby=\"lane-{id}-title lane-{id}-desc\"><title id=\"lane-{id}-title\">{title} over time</title>\
             <desc id=\"lane-{id}-desc\">{told}</desc>{bars}</svg>\n</div>\n"
        )
    }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => counted(seconds, "second"),
        120..7_200 => counted(seconds.div_ceil(60), "minute"),
        7_200..172_800 => counted(seconds.div_ceil(3_600), "hour"),
        _ => counted(seconds.div_ceil(86_400), "day"),
    }
}
