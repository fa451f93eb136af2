//! Charts: a quantity over x, both on logarithmic axes, drawn as SVG.
//!
//! The colours are those of Okabe and Ito, which colour-blind people can distinguish. Each line has
//! a marker shape of its own and its name at its end, so the chart can be read without colour. The
//! page's style sheet replaces the colours in dark mode.

use std::{collections::BTreeMap, error::Error, ops::Range};

use plotters::{
    coord::combinators::{BindKeyPoints, LogCoord, WithKeyPoints},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::marks::{self, Mark};
use crate::{
    failure::Failure,
    lab::{
        figure::{count_tick, tick},
        plan::{Arm, On, Quantity, View, peer::Peer},
        results::{Finished, Series},
    },
    workload::Engine,
};

const SIZE: (u32, u32) = (720, 420);
/// Room on the right for the lines' names.
const NAMES_WIDTH: u32 = 84;
/// With the longest name of a peer.
const PEERS_WIDTH: u32 = 120;
const FONT: &str = "sans-serif";
/// In plotters' units: 1.24 to the pixel.
const TEXT: f64 = 19.0;
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xE3, 0xE3, 0xE3);

pub(crate) fn colour(on: On) -> RGBColor {
    match on {
        On::Engine(Engine::Fibers) => RGBColor(0x00, 0x72, 0xB2),
        On::Engine(Engine::Threads) => RGBColor(0xD5, 0x5E, 0x00),
        On::Engine(Engine::Hybrid) => RGBColor(0x00, 0x9E, 0x73),
        On::Engine(Engine::Sidecar) => RGBColor(0x6A, 0x3D, 0x9A),
        On::Engine(Engine::Processes) => RGBColor(0x56, 0x5A, 0x63),
        On::Engine(Engine::Futures) => RGBColor(0xCC, 0x79, 0xA7),
        On::Engine(Engine::Coroutines) => RGBColor(0xE6, 0x9F, 0x00),
        // In the middle between black and white, because the page has no others in dark mode.
        On::Peer(Peer::Go) => RGBColor(0x0E, 0x82, 0x8C),
        On::Peer(Peer::JavaVirtual) => RGBColor(0xB0, 0x5F, 0x2B),
        On::Peer(Peer::JavaPlatform) => RGBColor(0x8A, 0x74, 0x3C),
        On::Peer(Peer::BoostFiber) => RGBColor(0x5F, 0x84, 0x1F),
        On::Peer(Peer::Tokio) => RGBColor(0xC8, 0x4B, 0x5A),
        On::Peer(Peer::Monoio) => RGBColor(0x7B, 0x6F, 0xC4),
        On::Peer(Peer::Compio) => RGBColor(0x4E, 0x7F, 0xB8),
        On::Peer(Peer::May) => RGBColor(0xA8, 0x5A, 0xA8),
        On::Peer(Peer::Smol) => RGBColor(0x9A, 0x6B, 0x5C),
    }
}

/// Draws a view; `None` if there are too few points for a line.
pub(crate) fn chart(finished: &Finished, view: &View) -> Result<Option<String>, Failure> {
    let series = finished.series(view.quantity);
    let longest = series.values().map(Vec::len).max().unwrap_or(0);
    if longest < 2 {
        return Ok(None);
    }
    let mut svg = String::new();
    let x_noun = &finished.experiment.x_noun;
    let mut marks = draw(&mut svg, &series, view.quantity, x_noun)
        .map_err(|error| Failure::other(format!("cannot draw a chart: {error}")))?;
    for mark in &mut marks {
        mark.readings = finished.readings_at(mark.arm, mark.x);
    }
    marks::add(&mut svg, &marks, view.quantity, x_noun);
    Ok(Some(svg))
}

fn draw(
    svg: &mut String,
    series: &BTreeMap<Arm, Series>,
    quantity: Quantity,
    x_noun: &str,
) -> Result<Vec<Mark>, Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let (xs, ys) = ranges(series);
    let (x_ticks, y_ticks) = (x_ticks(series), decades(&ys));
    let text = (FONT, TEXT).into_font().color(&INK);
    let has_peers = series.keys().any(|arm| matches!(arm.on, On::Peer(_)));
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(if has_peers { PEERS_WIDTH } else { NAMES_WIDTH })
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(
            xs.log_scale().with_key_points(x_ticks.clone()),
            ys.log_scale().with_key_points(y_ticks.clone()),
        )?;
    chart
        .configure_mesh()
        .axis_style(INK.mix(0.5))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_labels(x_ticks.len())
        .y_labels(y_ticks.len())
        .x_label_formatter(&|x| count_tick(*x))
        .y_label_formatter(&|y| tick(quantity, *y))
        .label_style(text.clone())
        .x_desc(x_noun)
        .axis_desc_style(text.clone())
        .draw()?;
    let (mut ends, mut marks) = (Vec::new(), Vec::new());
    for (arm, series) in series {
        draw_series(&mut chart, arm.on, series)?;
        for &(x, summary) in series {
            let (left, top) = chart.backend_coord(&(x as f64, summary.median));
            marks.push(Mark { arm: *arm, x, left, top, summary, readings: 0 });
        }
        ends.extend(marks.last().map(|mark| (mark.arm, mark.left, mark.top)));
    }
    for (arm, left, top) in spread_out(ends) {
        let colour = colour(arm.on);
        let style = text.clone().color(&colour).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(arm.name(), (left + 10, top), style))?;
    }
    root.present()?;
    Ok(marks)
}

type Axis = WithKeyPoints<LogCoord<f64>>;
type Plane<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

/// Draws a line through the medians, a bar from the least to the most, and a marker at each median.
/// Each engine has a marker shape of its own, and peers have hollow ones, so the lines differ
/// without colour.
fn draw_series(chart: &mut Plane<'_>, on: On, series: &Series) -> Result<(), Box<dyn Error>> {
    const RADIUS: i32 = 4;
    let colour = colour(on);
    let medians = || series.iter().map(|(x, summary)| (*x as f64, summary.median));
    chart.draw_series(LineSeries::new(medians(), colour.stroke_width(2)))?;
    chart.draw_series(series.iter().map(|(x, summary)| {
        let spread = vec![(*x as f64, summary.least), (*x as f64, summary.most)];
        PathElement::new(spread, colour.mix(0.45).stroke_width(1))
    }))?;
    let style = colour.filled();
    match on {
        On::Engine(Engine::Fibers) => {
            chart.draw_series(medians().map(|at| Circle::new(at, RADIUS, style)))?
        }
        On::Engine(Engine::Sidecar | Engine::Processes) => {
            chart.draw_series(medians().map(|at| Cross::new(at, RADIUS, style)))?
        }
        On::Engine(Engine::Hybrid | Engine::Coroutines) => {
            chart.draw_series(medians().map(|at| TriangleMarker::new(at, RADIUS + 2, style)))?
        }
        On::Engine(Engine::Threads | Engine::Futures) => {
            let square = [(-RADIUS, -RADIUS), (RADIUS, RADIUS)];
            let marker = |at| EmptyElement::at(at) + Rectangle::new(square, style);
            chart.draw_series(medians().map(marker))?
        }
        On::Peer(_) => chart
            .draw_series(medians().map(|at| Circle::new(at, RADIUS, colour.stroke_width(2))))?,
    };
    Ok(())
}

/// Moves the names apart if their lines end at the same place.
fn spread_out(mut ends: Vec<(Arm, i32, i32)>) -> Vec<(Arm, i32, i32)> {
    const LINE_HEIGHT: i32 = 17;
    ends.sort_by_key(|(_, _, top)| *top);
    for index in 1..ends.len() {
        let (above, below) = (ends[index - 1], ends[index]);
        let is_beside = (above.1 - below.1).abs() < NAMES_WIDTH as i32;
        if is_beside && below.2 - above.2 < LINE_HEIGHT {
            ends[index].2 = above.2 + LINE_HEIGHT;
        }
    }
    ends
}

fn ranges(series: &BTreeMap<Arm, Series>) -> (Range<f64>, Range<f64>) {
    let all = || series.values().flatten();
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let left = least(&mut all().map(|(x, _)| *x as f64));
    let right = most(&mut all().map(|(x, _)| *x as f64));
    // A tiny figure may be measured as zero or less, but a logarithm needs a positive number.
    let bottom = least(&mut all().map(|(_, s)| s.least)).max(1e-9);
    let top = most(&mut all().map(|(_, s)| s.most)).max(bottom * 10.0);
    (left / 1.15..right * 1.15, bottom / 1.5..top * 1.5)
}

/// A tick at each measured x, or at every n-th one if there are many.
fn x_ticks(series: &BTreeMap<Arm, Series>) -> Vec<f64> {
    const MOST: usize = 12;
    let mut xs: Vec<u64> = series.values().flatten().map(|(x, _)| *x).collect();
    xs.sort_unstable();
    xs.dedup();
    let step = xs.len().div_ceil(MOST);
    // From the right, so that the largest always has a tick.
    let mut ticks: Vec<_> = xs.iter().rev().step_by(step).map(|x| *x as f64).collect();
    ticks.reverse();
    ticks
}

/// The powers of ten in a range, with 2 and 5 times each if there are few.
fn decades(range: &Range<f64>) -> Vec<f64> {
    let exponents = (range.start.log10().floor() as i32)..=(range.end.log10().ceil() as i32);
    let powers = exponents.map(|exponent| 10_f64.powi(exponent));
    let inside = |values: Vec<f64>| -> Vec<f64> {
        values.into_iter().filter(|value| range.contains(value)).collect()
    };
    let whole = inside(powers.clone().collect());
    if whole.len() > 2 {
        return whole;
    }
    inside(powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]).collect())
}
