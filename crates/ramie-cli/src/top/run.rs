//! The loop of `ramie top`: news from the process, keys, and the screen.

use std::{
    env,
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::TryRecvError,
    },
    time::Duration,
};

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::{
    asker::{Asker, LIMIT},
    draw::{Palette, draw},
    screen::{Action, Screen, Update},
    terminal::{TakenTerminal, lost},
};
use crate::{
    arguments::TopArguments,
    failure::Failure,
    inspect::{self, Source},
    signals,
};

/// How long the loop waits for a key before it looks for news.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn top(arguments: &TopArguments) -> Result<(), Failure> {
    let pid = arguments.pid;
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::other(format!(
            "`ramie top` needs a terminal; `ramie inspect {pid}` prints the same once, and `ramie \
             inspect {pid} --web` shows it in a browser"
        )));
    }
    let mut source = Source::new(pid, LIMIT);
    // A process that does not answer is named before the screen changes.
    let mut screen = Screen::default();
    screen.update(Update::View(Box::new(source.view()?)));
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    signals::watch(move |_| flag.store(true, Ordering::Relaxed))?;
    let asker = Asker::start(pid, source, arguments.interval)?;
    let mut session = TakenTerminal::begin()?;
    // The terminal is given back before the failure is printed.
    show(pid, &mut session, &mut screen, &asker, &stopped)
}

/// Shows the process until a key or a signal ends the view, or the process ends.
fn show(
    pid: u32,
    session: &mut TakenTerminal,
    screen: &mut Screen,
    asker: &Asker,
    stopped: &AtomicBool,
) -> Result<(), Failure> {
    let has_colors = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let palette = Palette { has_colors };
    let mut is_drawn = false;
    while !stopped.load(Ordering::Relaxed) {
        loop {
            match asker.updates.try_recv() {
                Ok(Update::Ended) => return Err(inspect::ended(pid)),
                Ok(update) => screen.update(update),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::other("the thread that asks the process has ended"));
                }
            }
            is_drawn = false;
        }
        if !is_drawn {
            session.draw(|frame| draw(frame, screen, palette))?;
            is_drawn = true;
        }
        if !event::poll(LOOK).map_err(|error| lost(&error))? {
            continue;
        }
        is_drawn = false;
        let Event::Key(key) = event::read().map_err(|error| lost(&error))? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match screen.key(key) {
            Action::Nothing => {}
            Action::Quit => return Ok(()),
            Action::Ask(id) => asker.ask(id),
        }
    }
    Ok(())
}
