//! The locations in a row: the first edge to the next location is straight, loops are above, all others below, each in
//! a lane of its own where they would meet.

use std::ops::Range;

use pilot_core::graph::Location;

use super::super::{Arrow, Picture};
use super::{Block, GAP, class, group, tag, tag_width, text};

/// The radius of a location.
const RADIUS: f64 = 24.0;
/// Between the lanes of edges.
const LANE: f64 = 32.0;
/// From the middle of the row to the first lane.
const FIRST_LANE: f64 = 50.0;
/// At least this much between two locations.
const DISTANCE: f64 = 150.0;
/// The height of an edge's text.
const TAG: f64 = 22.0;
/// The arrow that points to the initial location.
const START: f64 = 36.0;

/// An edge with its place in the drawing.
struct Curve<'p> {
    arrow: &'p Arrow<'p>,
    /// Indices of locations.
    from: usize,
    to: usize,
    /// 0 is the row itself, then away from it.
    lane: usize,
}

pub(super) fn draw(picture: &Picture<'_>) -> Block {
    let locations: Vec<Location> = picture.locations.iter().copied().collect();
    let curves = lanes(picture, &locations);
    let places = places(&locations, &curves);
    let x = |at: usize| places.get(at).copied().unwrap_or(0.0);
    let extent = |loops: bool| {
        let lanes = curves.iter().filter(|curve| curve.is_loop() == loops).map(|curve| lane_height(curve.lane));
        lanes.fold(RADIUS, f64::max) + 2.0 * GAP
    };
    let (above, below) = (extent(true), extent(false));

    let mut body = String::new();
    let name = picture.graph.name;
    for curve in &curves {
        let kind = if curve.arrow.is_untaken() { "untaken" } else { class(curve.arrow) };
        let path = curve.path(x(curve.from), x(curve.to), above, reach(curve, &curves));
        let stroke = format!("<path class=\"edge\" marker-end=\"url(#{name}-{kind})\" d=\"{path}\"/>\n");
        let (middle, width) = (curve.middle(above), tag_width(curve.arrow));
        let left = (x(curve.from) + x(curve.to) - width) / 2.0;
        let (top, height) = (middle - TAG / 2.0, TAG);
        let page = format!(
            "<rect class=\"page\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\n"
        );
        body += &group(curve.arrow, &(stroke + &page + &tag(curve.arrow, left, middle)));
    }
    for (at, location) in locations.iter().enumerate() {
        body += &format!("<circle class=\"circle\" cx=\"{:.1}\" cy=\"{above:.1}\" r=\"{RADIUS}\"/>\n", x(at));
        body += &text(x(at), above + 5.0, "location", &location.to_string());
        if *location == picture.graph.initial {
            let tip = x(at) - RADIUS;
            let start = tip - START;
            body += &format!(
                "<path class=\"edge\" marker-end=\"url(#{name}-figure)\" d=\"M{start:.1} {above:.1}H{tip:.1}\"/>\n"
            );
        }
    }
    let last = locations.len().saturating_sub(1);
    Block { body, width: x(last) + side(last, &curves), height: above + below }
}

/// Gives each edge between locations a lane.
fn lanes<'p>(picture: &'p Picture<'p>, locations: &[Location]) -> Vec<Curve<'p>> {
    let place = |location| locations.iter().position(|other| *other == location).unwrap_or_default();
    let curve = |(from, arrow, to)| Curve { arrow, from: place(from), to: place(to), lane: 0 };
    let mut curves: Vec<Curve<'p>> = picture.between().map(curve).collect();
    // Short ones first: a long one passes outside of them.
    curves.sort_by_key(|curve| (curve.from.abs_diff(curve.to), curve.arrow.number));
    let mut done: Vec<Curve<'p>> = Vec::new();
    for mut curve in curves {
        curve.lane = match (curve.is_loop(), curve.span().len()) {
            (false, 1) if curve.from < curve.to => 0,
            (false, 2..) => 2,
            _ => 1,
        };
        while done.iter().any(|other| other.lane == curve.lane && other.meets(&curve)) {
            curve.lane += 1;
        }
        done.push(curve);
    }
    done
}

/// Where the locations stand: so far apart that the texts of edges and loops have room.
fn places(locations: &[Location], curves: &[Curve<'_>]) -> Vec<f64> {
    let mut x = (START + RADIUS).max(side(0, curves));
    let mut places = Vec::new();
    for at in 0..locations.len() {
        places.push(x);
        let between = curves.iter().filter(|curve| curve.span() == (at..at + 1));
        let texts = between.map(|curve| tag_width(curve.arrow)).fold(0.0, f64::max);
        x += (side(at, curves) + texts + side(at + 1, curves)).max(DISTANCE);
    }
    places
}

/// The room that a location and its loops need on either side.
fn side(at: usize, curves: &[Curve<'_>]) -> f64 {
    let loops = curves.iter().filter(|curve| curve.is_loop() && curve.from == at);
    loops.map(|curve| reach(curve, curves)).fold(RADIUS + 3.0 * GAP, f64::max) + GAP
}

/// How far a loop goes to either side: further than its text, and than the loops inside it.
fn reach(curve: &Curve<'_>, curves: &[Curve<'_>]) -> f64 {
    let own = tag_width(curve.arrow) / 2.0 + 2.0 * GAP;
    let inside =
        curves.iter().filter(|other| other.is_loop() && other.from == curve.from && other.lane + 1 == curve.lane);
    inside.map(|other| reach(other, curves) + 2.0 * GAP).fold(own, f64::max)
}

/// How far a lane is from the row.
fn lane_height(lane: usize) -> f64 {
    match lane {
        0 => 0.0,
        lane => FIRST_LANE + (lane - 1) as f64 * LANE,
    }
}

impl Curve<'_> {
    fn is_loop(&self) -> bool {
        self.from == self.to
    }

    fn span(&self) -> Range<usize> {
        self.from.min(self.to)..self.from.max(self.to)
    }

    /// Whether the two would cover each other in the same lane.
    fn meets(&self, other: &Self) -> bool {
        let (own, others) = (self.span(), other.span());
        match (self.is_loop(), other.is_loop()) {
            (true, true) => own == others,
            (false, false) => own.start < others.end && others.start < own.end,
            _ => false,
        }
    }

    /// The path between the two locations with the row at y; `reach` is how far a loop goes to either side.
    fn path(&self, from: f64, to: f64, y: f64, reach: f64) -> String {
        match (self.lane, self.is_loop()) {
            (0, _) => format!("M{:.1} {y:.1}H{:.1}", from + RADIUS, to - RADIUS),
            (_, true) => self.path_of_loop(from, y, reach),
            (_, false) => self.path_below(from, to, y),
        }
    }

    /// Outer loops leave the circle further down, pass beside the texts of the inner ones and turn above them.
    fn path_of_loop(&self, x: f64, y: f64, reach: f64) -> String {
        let dx = (8.0 * self.lane as f64 - 3.0).min(RADIUS - 1.0);
        let (rim, away) = (height_on_circle(dx), 1.6);
        let (start, end, foot) = (x - dx, x + dx, y - rim);
        // It leaves the circle at a right angle: towards a point further away from the circle's middle.
        let (out, back, radial) = (x - away * dx, x + away * dx, y - away * rim);
        let (left, right, top) = (x - reach, x + reach, self.middle(y));
        let (low, bend, corner) = (y - 38.0, y - 24.0, top + 10.0);
        let (inner_left, inner_right) = (left + 10.0, right - 10.0);
        format!(
            "M{start:.1} {foot:.1}C{out:.1} {radial:.1} {left:.1} {bend:.1} {left:.1} {low:.1}\
             V{corner:.1}Q{left:.1} {top:.1} {inner_left:.1} {top:.1}\
             H{inner_right:.1}Q{right:.1} {top:.1} {right:.1} {corner:.1}\
             V{low:.1}C{right:.1} {bend:.1} {back:.1} {radial:.1} {end:.1} {foot:.1}"
        )
    }

    /// Outer lanes leave the circle further down and fall more steeply, so that they pass outside of the inner ones.
    fn path_below(&self, from: f64, to: f64, y: f64) -> String {
        let dx = (26.0 - 6.0 * self.lane as f64).max(2.0);
        let (rim, bottom) = (y + height_on_circle(dx), self.middle(y));
        let towards = if to < from { -1.0 } else { 1.0 };
        let (start, end) = (from + towards * dx, to - towards * dx);
        let (fall, rise) = (start + towards * 8.0, end - towards * 8.0);
        let (first, last) = (start + towards * 36.0, end - towards * 36.0);
        format!(
            "M{start:.1} {rim:.1}Q{fall:.1} {bottom:.1} {first:.1} {bottom:.1}\
             H{last:.1}Q{rise:.1} {bottom:.1} {end:.1} {rim:.1}"
        )
    }

    /// The height of its text, with the row at y.
    fn middle(&self, y: f64) -> f64 {
        if self.is_loop() { y - lane_height(self.lane) } else { y + lane_height(self.lane) }
    }
}

/// How high a circle is, so far from its middle.
fn height_on_circle(dx: f64) -> f64 {
    (RADIUS * RADIUS - dx * dx).sqrt()
}
