//! The screen as text. Nothing here fails on a small terminal: tables lose rows, then disappear.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap},
};

use super::screen::{Order, Screen, StrandView};
use crate::inspect::{PlaceRow, ProcessView, StallRow, WaitRow, WorkerRow};

const HELP: &str = "\
 Up, Down, PageUp, PageDown, Home, End   select a wait
 Enter, b    calls of the selected strand; again, or Esc: back
 s n k a w   sort the waits: since, name, kind, place (at), worker
 p           pause, continue
 ?           this list
 q, Ctrl-C   end

 load        share of the time in which the worker's thread ran
 run queue   its length when the worker last looked
 any key closes this list";

/// Colours, unless `NO_COLOR` is set.
#[derive(Clone, Copy)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

impl Palette {
    fn colored(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn head(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, palette: Palette) {
    let [top, body, foot] =
        Layout::vertical([Constraint::Max(2), Constraint::Fill(1), Constraint::Max(1)])
            .areas(frame.area());
    frame.render_widget(title(screen, palette), top);
    match &screen.detail {
        Some(detail) => draw_detail(frame, body, detail, palette),
        None => draw_tables(frame, body, screen, palette),
    }
    frame.render_widget(footer(screen, palette), foot);
    if screen.has_help {
        let (width, height) = (body.width.min(76), body.height.min(12));
        let area = Rect { width, height, ..body };
        let help = Paragraph::new(HELP).block(Block::bordered().title("keys"));
        frame.render_widget(Clear, area);
        frame.render_widget(help, area);
    }
}

fn title<'a>(screen: &Screen, palette: Palette) -> Paragraph<'a> {
    let ProcessView { process, states, rates, .. } = &screen.view;
    let total = states.waiting + states.running + states.runnable + states.not_started;
    let mut first = vec![
        Span::styled(format!("process {process}"), palette.head()),
        Span::raw(format!("  {} strands", grouped(total))),
    ];
    if let Some(rates) = rates {
        let [spawned, switches] =
            [rates.spawned, rates.switches].map(|rate| grouped(rate.round() as u64));
        first.push(Span::raw(format!("  {spawned} spawned/s  {switches} switches/s")));
    }
    if screen.is_paused {
        first.push(Span::styled("  PAUSED", palette.bad()));
    }
    let second = format!(
        "waiting {}  runnable {}  running {}  not started {}",
        grouped(states.waiting),
        grouped(states.runnable),
        grouped(states.running),
        grouped(states.not_started)
    );
    Paragraph::new(vec![Line::from(first), Line::from(second)])
}

fn footer<'a>(screen: &Screen, palette: Palette) -> Paragraph<'a> {
    if !screen.problem.is_empty() {
        return Paragraph::new(Line::styled(screen.problem.clone(), palette.bad()));
    }
    let keys = match &screen.detail {
        Some(_) => "Esc back  Up/Down scroll  q quit",
        None => "q quit  ? keys  Enter calls  p pause  sort: s n k a w",
    };
    Paragraph::new(keys)
}

/// The heights of the four tables, with their heads, in a body of this height.
fn heights(body: u16, view: &ProcessView) -> [u16; 4] {
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let with_head = |rows: u16| if rows == 0 { 0 } else { rows + 1 };
    if body < 8 {
        return [0, 0, body, 0];
    }
    let workers = with_head(rows(view.workers.len()).min((body / 5).max(1)));
    let places = with_head(rows(view.places.len()).min((body / 4).max(1)));
    let stalls = with_head(rows(view.stalls.len()).min((body / 8).max(1)));
    [workers, places, body.saturating_sub(workers + places + stalls), stalls]
}

fn draw_tables(frame: &mut Frame<'_>, body: Rect, screen: &Screen, palette: Palette) {
    let view = &screen.view;
    let parts = heights(body.height, view);
    let [workers, places, slowest, stalls] =
        Layout::vertical(parts.map(Constraint::Length)).areas(body);
    let head = |cells: Vec<String>| Row::new(cells).style(palette.head());
    if parts[0] > 0 {
        let rows = view.workers.iter().map(|row| worker_row(row, palette));
        let table = Table::new(rows, WORKER_WIDTHS).header(head(worker_head(view, parts[0])));
        frame.render_widget(table, workers);
    }
    if parts[1] > 0 {
        let count = counted("at", view.places.len(), parts[1]);
        let head = head(vec!["strands".into(), "longest".into(), "wait for".into(), count]);
        let table = Table::new(view.places.iter().map(place_row), PLACE_WIDTHS).header(head);
        frame.render_widget(table, places);
    }
    if parts[2] > 0 {
        let rows = view.slowest.iter().map(wait_row);
        let table = Table::new(rows, WAIT_WIDTHS)
            .header(head(wait_head(screen.order)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected(screen.selected());
        frame.render_stateful_widget(table, slowest, &mut state);
    }
    if parts[3] > 0 {
        let count = counted("stall", view.stalls.len(), parts[3]);
        let head = head(vec![count, "ago".into(), "lasted".into(), "cause".into()]);
        let table = Table::new(view.stalls.iter().map(stall_row), STALL_WIDTHS).header(head);
        frame.render_widget(table, stalls);
    }
}

const WORKER_WIDTHS: [Constraint; 7] = [
    Constraint::Length(14),
    Constraint::Length(17),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Fill(1),
];
const PLACE_WIDTHS: [Constraint; 4] =
    [Constraint::Length(10), Constraint::Length(10), Constraint::Fill(2), Constraint::Fill(3)];
const WAIT_WIDTHS: [Constraint; 5] = [
    Constraint::Fill(2),
    Constraint::Length(10),
    Constraint::Fill(3),
    Constraint::Fill(3),
    Constraint::Length(12),
];
const STALL_WIDTHS: [Constraint; 4] =
    [Constraint::Fill(2), Constraint::Length(10), Constraint::Length(10), Constraint::Fill(4)];

/// The title of a table's column, with the number of rows if not all of them fit.
fn counted(noun: &str, count: usize, height: u16) -> String {
    let shown = usize::from(height).saturating_sub(1);
    if count > shown { format!("{noun} {shown}/{count}") } else { noun.to_owned() }
}

fn worker_head(view: &ProcessView, height: u16) -> Vec<String> {
    let label = counted("worker", view.workers.len(), height);
    let rest = ["load", "queue", "runnable", "waiting", "fibers", "thread"];
    [label].into_iter().chain(rest.map(str::to_owned)).collect()
}

fn worker_row<'a>(row: &WorkerRow, palette: Palette) -> Row<'a> {
    let queue = row.run_queue.map_or("-".to_owned(), grouped);
    let (load, thread) = match &row.problem[..] {
        "" => (bar(row.load), row.thread.clone()),
        problem => ("?".to_owned(), format!("{} {problem}", row.thread)),
    };
    let [runnable, waiting, fibers] = [row.runnable, row.waiting, row.fibers].map(grouped);
    let cells = [row.label.clone(), load, queue, runnable, waiting, fibers, thread];
    let style = if row.problem.is_empty() { Style::new() } else { palette.bad() };
    Row::new(cells).style(style)
}

/// A load as ten signs and a number.
fn bar(load: Option<f64>) -> String {
    let Some(load) = load else { return "-".to_owned() };
    let full = (10.0 * load).round().clamp(0.0, 10.0) as usize;
    format!("{}{} {:>3.0} %", "#".repeat(full), ".".repeat(10 - full), 100.0 * load)
}

fn place_row<'a>(row: &PlaceRow) -> Row<'a> {
    let (strands, longest) = (grouped(row.strands), time(row.longest_ms));
    Row::new([strands, longest, row.purpose.clone(), row.place.clone()])
}

fn wait_head(order: Order) -> Vec<String> {
    let columns = [
        ("slowest waits", Order::Name),
        ("since", Order::Since),
        ("waits for", Order::Wait),
        ("at", Order::Place),
        ("worker", Order::Worker),
    ];
    let marked = |(text, of): (&str, Order)| {
        if of == order { format!("{text} *") } else { text.to_owned() }
    };
    columns.map(marked).to_vec()
}

fn wait_row<'a>(row: &WaitRow) -> Row<'a> {
    let name = match &row.name[..] {
        "" => row.id.clone(),
        name => format!("{name} ({})", row.id),
    };
    let (since, worker) = (time(row.since_ms), row.worker.clone());
    Row::new([name, since, row.wait.clone(), row.place.clone(), worker])
}

fn stall_row<'a>(row: &StallRow) -> Row<'a> {
    let lasted = format!("{}{}", if row.has_ended { "" } else { ">" }, time(row.lasted_ms));
    Row::new([row.fiber.clone(), time(row.ago_ms), lasted, row.cause.clone()])
}

fn draw_detail(frame: &mut Frame<'_>, body: Rect, detail: &StrandView, palette: Palette) {
    let lines = detail.lines.iter().skip(detail.scroll).map(|line| Line::raw(line.as_str()));
    let block = Block::bordered().title(Span::styled(detail.title.clone(), palette.head()));
    let text = Paragraph::new(lines.collect::<Vec<_>>()).wrap(Wrap { trim: false }).block(block);
    frame.render_widget(text, body);
}

/// A number with separators between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in the unit that suits it.
pub(super) fn time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        seconds @ 60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        seconds => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
    }
}
