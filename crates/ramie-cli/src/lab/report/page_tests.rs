//! The page for everyone: a table for each chart, links that lead to the records, and colours with
//! enough contrast.

use std::collections::{BTreeMap, HashSet};

use clap::ValueEnum;
use plotters::style::RGBColor;

use super::{
    chart::colour,
    page::{self, STYLE},
};
use crate::{
    lab::{
        plan::{On, Selection, peer::Peer},
        results::sample::lab,
    },
    workload::Engine,
};

fn quick() -> String {
    let cost = |subject: &crate::lab::results::Subject, round: u32| {
        Some(1e-3 * subject.x as f64 * f64::from(round))
    };
    page::page(&lab(Selection::Quick, 3, cost)).unwrap()
}

/// The values of an attribute: the text between `before` and the next quotation mark.
fn values<'a>(html: &'a str, before: &str) -> Vec<&'a str> {
    html.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn each_figure_leads_to_its_records() {
    let html = quick();
    let ids = values(&html, " id=\"");
    let unique: HashSet<_> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id occurs twice");
    let links = values(&html, "<a href=\"#");
    assert!(links.len() > 100, "{} links", links.len());
    for link in links {
        assert!(unique.contains(link), "there is no record {link}");
    }
}

#[test]
fn each_chart_has_its_figures_in_words_and_in_a_table() {
    let html = quick();
    let charts = html.matches("<svg role=\"img\" tabindex=\"0\" aria-label=\"").count();
    assert!(charts > 10 && charts == html.matches("<svg ").count(), "{charts} charts");
    let circles = html.matches("<circle cx=\"").count() - html.matches("<circle cx=\"\"").count();
    assert!(circles > charts, "{circles} marks");
    assert!(
        html.contains("<title>fibers, 8 people: 16.0 ms (8.00 ms to 24.0 ms, 3 readings)</title>")
    );
    let tables = html.matches(": all figures</summary>").count();
    let readings = html.matches(": all readings</summary>").count();
    let sections = Selection::Quick.experiments().len();
    assert_eq!((tables, readings), (sections, sections));
}

#[test]
fn the_page_needs_no_network() {
    let html = quick();
    // Names of XML are no addresses that a browser opens.
    let html = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=\"", "<link", "@import", "url("] {
        assert!(!html.contains(outside), "the page has {outside}");
    }
}

/// The relative luminance of a colour, as WCAG 2 defines it.
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

/// The colours of one mode by their names; a later definition replaces an earlier one.
fn colours(css: &str) -> BTreeMap<&str, &str> {
    let definitions = css.split("--").skip(1).filter_map(|rest| rest.split_once(": "));
    definitions.filter_map(|(name, rest)| Some((name, rest.get(..7)?))).collect()
}

#[test]
fn text_has_the_contrast_of_level_aa() {
    let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let (dark, _) = rest.split_once("* {").unwrap();
    let (_, print) = STYLE.split_once("@media print").unwrap();
    for (mode, css) in [("light", light), ("dark", dark), ("print", print)] {
        let colours: BTreeMap<_, _> =
            colours(css).into_iter().filter(|(_, value)| value.starts_with('#')).collect();
        let texts =
            colours.iter().filter(|(name, _)| !["paper", "panel", "line", "grid"].contains(name));
        let mut checked = 0;
        for (name, text) in texts {
            for ground in ["paper", "panel"] {
                let [text, ground_of] = [*text, colours[ground]].map(luminance);
                let contrast = (text.max(ground_of) + 0.05) / (text.min(ground_of) + 0.05);
                assert!(contrast >= 4.5, "{mode}: {name} on {ground} has {contrast:.2}");
                checked += 1;
            }
        }
        assert!(checked >= 18, "{mode}: only {checked} pairs");
    }
}

#[test]
fn the_style_sheet_replaces_each_colour_of_the_charts() {
    let engines = Engine::value_variants().iter().copied().map(On::Engine);
    for on in engines.chain(Peer::ALL.map(On::Peer)) {
        let RGBColor(red, green, blue) = colour(on);
        let name = format!("#{red:02X}{green:02X}{blue:02X}");
        for attribute in ["fill", "stroke"] {
            let rule = format!("svg [{attribute}=\"{name}\"]");
            assert!(STYLE.contains(&rule), "{on:?}: there is no rule {rule}");
        }
    }
}
