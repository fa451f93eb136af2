//! The parts of the page about posts: their conclusions, and their figures beside ours.

use std::fmt::Write;

use super::{
    conclusion,
    page::{escape, paragraph},
};
use crate::lab::{
    figure::{amount, thousands},
    plan::{View, post::Published},
    results::{Finished, Results},
};

/// The conclusion of each post, with its source and the parts that are not measured here.
pub(super) fn conclusions(html: &mut String, results: &Results) {
    if results.posts.is_empty() {
        return;
    }
    html.push_str("<h2>The posts, and whether their conclusions hold here</h2>\n");
    for post in &results.posts {
        let _ = writeln!(
            html,
            "<h3>{}, “{}”, {}</h3>",
            escape(&post.author),
            escape(&post.title),
            post.year
        );
        paragraph(html, "", &(conclusion::sentence(post, results) + "."));
        let there = format!("Measured there on: {}. {}", post.machine, post.cut.join(" "));
        paragraph(html, "faint", there.trim());
    }
}

/// The published figures of an experiment beside those of this machine, one table for each view.
pub(super) fn figures(html: &mut String, finished: &Finished) {
    for view in &finished.experiment.views {
        let of_view = |series: &&Published| series.quantity == view.quantity;
        let published: Vec<_> = finished.experiment.published.iter().filter(of_view).collect();
        if !published.is_empty() {
            table(html, finished, view, &published);
        }
    }
}

fn table(html: &mut String, finished: &Finished, view: &View, published: &[&Published]) {
    let (arms, series) = (finished.arms(), finished.series(view.quantity));
    let _ = write!(
        html,
        "<div class=\"scroll\"><table>\n<caption>{}: figures of the post beside those of this \
         machine</caption>\n<thead><tr><th>{}</th>",
        escape(&view.title),
        escape(&finished.experiment.x_noun)
    );
    for arm in &arms {
        let _ = write!(html, "<th>{}, here</th>", arm.name());
    }
    for of in published {
        let (name, machine) = (escape(&of.name), escape(&of.machine));
        let _ = write!(html, "<th>{name}, {}<br><small>{machine}</small></th>", of.year);
    }
    html.push_str("</tr></thead>\n");
    let mut xs: Vec<u64> = finished.outcomes.iter().map(|outcome| outcome.subject.x).collect();
    xs.dedup();
    for x in xs {
        let _ = write!(html, "<tr><td>{}</td>", thousands(x));
        let ours = arms.iter().map(|arm| {
            let of_arm = series.get(arm)?.iter().find(|(other, _)| *other == x)?;
            Some(of_arm.1.median)
        });
        let theirs =
            published.iter().map(|of| Some(of.points.iter().find(|(other, _)| *other == x)?.1));
        for value in ours.chain(theirs) {
            let text = value.map_or("–".to_owned(), |value| amount(view.quantity, value));
            let _ = write!(html, "<td>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}
