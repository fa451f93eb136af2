//! The points of a chart for readers: an element over each marker with its value in words, for the
//! mouse, the keyboard and screen readers, and its numbers for the download.

use std::fmt::Write;

use super::page::escape;
use crate::{
    lab::{
        figure::{amount, counted},
        plan::{Arm, Quantity},
    },
    summary::Summary,
};

/// A marker of a chart, at its place in the pixels of the drawing.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) arm: Arm,
    pub(super) x: u64,
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) summary: Summary,
    pub(super) readings: usize,
}

/// The radius in which a mark answers to the pointer, in pixels.
const REACH: u32 = 9;

/// Adds the marks to a drawing, above everything else.
pub(super) fn add(svg: &mut String, marks: &[Mark], quantity: Quantity, x_noun: &str) {
    let mut group = "<g class=\"marks\">\n".to_owned();
    for mark in marks {
        let Mark { arm, x, left, top, summary, .. } = mark;
        let _ = writeln!(
            group,
            "<circle cx=\"{left}\" cy=\"{top}\" r=\"{REACH}\" data-arm=\"{}\" data-x=\"{x}\" \
             data-median=\"{}\" data-least=\"{}\" data-most=\"{}\" data-readings=\"{}\">\
             <title>{}</title></circle>",
            arm.name(),
            summary.median,
            summary.least,
            summary.most,
            mark.readings,
            escape(&sentence(mark, quantity, x_noun))
        );
    }
    group.push_str("</g>\n</svg>");
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    svg.replace_range(end.., &group);
}

/// A mark in words: `fibers, 8 people: 1.20 ms (1.10 to 1.30 ms, 5 readings)`.
fn sentence(mark: &Mark, quantity: Quantity, x_noun: &str) -> String {
    let Mark { arm, x, summary, readings, .. } = mark;
    let value = amount(quantity, summary.median);
    let spread = match readings {
        1 => "one reading".to_owned(),
        _ => format!(
            "{} to {}, {readings} readings",
            amount(quantity, summary.least),
            amount(quantity, summary.most)
        ),
    };
    format!("{}, {}: {value} ({spread})", arm.name(), counted(*x, x_noun))
}
