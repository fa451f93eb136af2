//! The comparison as a page without external files.

use std::fmt::Write;

use super::{
    Both, text,
    verdict::{Direction, Verdict},
};
use crate::lab::report::page::{STYLE, escape};

pub(super) fn page(both: &Both) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Ramie lab: two labs compared</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Two labs compared</h1>\n<p class=\"lead\">{}</p>\n",
        escape(&text::verdict(both))
    );
    for warning in both.warnings() {
        let _ = writeln!(html, "<p class=\"notice\">{}</p>", escape(&warning));
    }
    machines(&mut html, both);
    for direction in [Direction::Worse, Direction::Better] {
        changes(&mut html, both, direction);
    }
    html.push_str("<h2>The rest</h2>\n<ul>\n");
    for line in text::rest(&both.pairing) {
        let _ = writeln!(html, "<li>{}</li>", escape(&line));
    }
    let _ = write!(
        html,
        "<li>the same within {}: {} figures</li>\n</ul>\n</body>\n</html>\n",
        both.threshold,
        both.pairing.with(Verdict::Same).count()
    );
    html
}

fn machines(html: &mut String, both: &Both) {
    html.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th></th>\
                   <th>old</th><th>new</th></tr></thead>\n",
    );
    let rows = both.old.machine.rows().into_iter().zip(both.new.machine.rows());
    for ((name, old), (_, new)) in rows {
        let (old, new) = (escape(&old), escape(&new));
        let _ =
            writeln!(html, "<tr><th scope=\"row\">{name}</th><td>{old}</td><td>{new}</td></tr>");
    }
    html.push_str("</table></div>\n");
}

fn changes(html: &mut String, both: &Both, direction: Direction) {
    let mut changed = both.pairing.with(Verdict::Changed(direction)).peekable();
    let name = text::name_of(direction);
    let title = name[..1].to_uppercase() + &name[1..];
    let _ = writeln!(html, "<h2>{title}</h2>");
    if changed.peek().is_none() {
        html.push_str("<p>None.</p>\n");
        return;
    }
    html.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th>point</th><th>quantity</th><th>medians</th>\
         <th>change</th><th>ranges</th></tr></thead>\n",
    );
    for pair in changed {
        html.push_str("<tr>");
        for cell in text::cells(pair) {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}
