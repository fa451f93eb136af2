//! The state of the screen: which rows are shown, which one is selected, and what a key changes.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::inspect::{ProcessView, WaitRow};

/// The order of the slowest waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    #[default]
    Since,
    Name,
    Wait,
    Place,
    Worker,
}

/// News from the thread that asks the process.
pub(super) enum Update {
    View(Box<ProcessView>),
    /// No view this time, and why.
    Problem(String),
    /// The text of a strand, or why there is none.
    Strand {
        id: String,
        text: String,
    },
    /// The process has ended.
    Ended,
}

/// What the loop has to do after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Ask for the strand of this id.
    Ask(String),
}

/// The backtrace that covers the tables.
#[derive(Debug, Default)]
pub(super) struct StrandView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) scroll: usize,
}

#[derive(Default)]
pub(super) struct Screen {
    /// The view that is shown, its slowest waits in the chosen order.
    pub(super) view: ProcessView,
    /// The newest view, which differs while the screen is paused.
    newest: ProcessView,
    pub(super) order: Order,
    /// The id of the selected wait, so that it stays selected when others come and go.
    selected: Option<String>,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    pub(super) detail: Option<StrandView>,
    pub(super) problem: String,
}

/// The lines by which PageUp and PageDown move.
const PAGE: usize = 10;

impl Screen {
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::View(view) => {
                self.problem.clear();
                self.newest = *view;
                if !self.is_paused {
                    self.show_newest();
                }
            }
            Update::Problem(problem) => self.problem = crate::inspect::visible(&problem),
            Update::Strand { id, text } => {
                if let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) {
                    detail.lines = text.lines().map(crate::inspect::visible).collect();
                }
            }
            Update::Ended => {}
        }
    }

    fn show_newest(&mut self) {
        self.view = self.newest.clone();
        self.sort();
    }

    fn sort(&mut self) {
        let waits = &mut self.view.slowest;
        waits.sort_by(|a, b| b.since_ms.cmp(&a.since_ms).then_with(|| a.id.cmp(&b.id)));
        match self.order {
            Order::Since => {}
            Order::Name => waits.sort_by(|a, b| a.name.cmp(&b.name)),
            Order::Wait => waits.sort_by(|a, b| a.wait.cmp(&b.wait)),
            Order::Place => waits.sort_by(|a, b| a.place.cmp(&b.place)),
            Order::Worker => waits.sort_by(|a, b| a.worker.cmp(&b.worker)),
        }
    }

    /// The place of the selected wait; the first one if it has ended.
    pub(super) fn selected(&self) -> Option<usize> {
        let waits = &self.view.slowest;
        let is_selected = |wait: &WaitRow| self.selected.as_ref() == Some(&wait.id);
        waits.iter().position(is_selected).or((!waits.is_empty()).then_some(0))
    }

    fn select(&mut self, at: usize) {
        let last = self.view.slowest.len().saturating_sub(1);
        let row = self.view.slowest.get(at.min(last));
        self.selected = row.map(|row| row.id.clone());
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Action::Quit,
            _ if is_control => return Action::Nothing,
            KeyCode::Char('q') => return Action::Quit,
            _ if self.has_help => self.has_help = false,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                if !self.is_paused {
                    self.show_newest();
                }
            }
            _ if self.detail.is_some() => self.key_of_detail(key.code),
            code => return self.key_of_table(code),
        }
        Action::Nothing
    }

    fn key_of_detail(&mut self, code: KeyCode) {
        let Some(detail) = &mut self.detail else { return };
        let last = detail.lines.len().saturating_sub(1);
        detail.scroll = match code {
            KeyCode::Up => detail.scroll.saturating_sub(1),
            KeyCode::Down => detail.scroll + 1,
            KeyCode::PageUp => detail.scroll.saturating_sub(PAGE),
            KeyCode::PageDown => detail.scroll + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Char('b') => {
                self.detail = None;
                return;
            }
            _ => return,
        }
        .min(last);
    }

    fn key_of_table(&mut self, code: KeyCode) -> Action {
        let at = self.selected().unwrap_or(0);
        match code {
            KeyCode::Up => self.select(at.saturating_sub(1)),
            KeyCode::Down => self.select(at + 1),
            KeyCode::PageUp => self.select(at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.select(at + PAGE),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Enter | KeyCode::Char('b') => return self.open(at),
            KeyCode::Char('s') => self.order_by(Order::Since),
            KeyCode::Char('n') => self.order_by(Order::Name),
            KeyCode::Char('k') => self.order_by(Order::Wait),
            KeyCode::Char('a') => self.order_by(Order::Place),
            KeyCode::Char('w') => self.order_by(Order::Worker),
            _ => {}
        }
        Action::Nothing
    }

    fn order_by(&mut self, order: Order) {
        self.order = order;
        self.sort();
    }

    fn open(&mut self, at: usize) -> Action {
        let Some(wait) = self.view.slowest.get(at) else { return Action::Nothing };
        let id = wait.id.clone();
        self.selected = Some(id.clone());
        let title = match &wait.name[..] {
            "" => id.clone(),
            name => format!("{name} ({id})"),
        };
        let lines = vec!["asking…".to_owned()];
        self.detail = Some(StrandView { id: id.clone(), title, lines, scroll: 0 });
        Action::Ask(id)
    }
}
