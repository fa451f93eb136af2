//! The screen without a terminal: rows, keys, small sizes, names that would control a terminal. And
//! the terminal after a panic.

use std::{
    env,
    fs::File,
    io::Read,
    process::{Command, Stdio},
};

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, tcgetattr},
};

use super::{
    draw::{Palette, draw, grouped, time},
    screen::{Action, Screen, Update},
    terminal::TakenTerminal,
};
use crate::inspect::{PlaceRow, ProcessView, StallRow, WaitRow, WorkerRow};

fn wait(id: &str, name: &str, since_ms: u64) -> WaitRow {
    WaitRow {
        id: id.to_owned(),
        name: name.to_owned(),
        wait: format!("an Event ({id})"),
        place: format!("src/{}.rs:3", if name.is_empty() { "none" } else { name }),
        since_ms,
        left_ms: None,
        worker: "worker 0".to_owned(),
    }
}

fn view() -> ProcessView {
    let worker = |index: usize, load| WorkerRow {
        label: format!("worker {index}"),
        thread: "ramie".to_owned(),
        load,
        run_queue: Some(5),
        runnable: 6,
        waiting: 1_234_567,
        fibers: 8,
        problem: String::new(),
    };
    let mut silent = worker(1, None);
    silent.problem = "has not answered".to_owned();
    let mut view = ProcessView { process: 4711, ..ProcessView::default() };
    view.workers = vec![worker(0, Some(0.62)), silent];
    view.states.waiting = 1_234_567;
    view.places = vec![PlaceRow {
        purpose: "an Event".to_owned(),
        place: "src/main.rs:12".to_owned(),
        strands: 1_234_000,
        longest_ms: 61_000,
    }];
    view.slowest = vec![wait("1.1", "beta", 100), wait("2.1", "", 9000), wait("3.1", "alpha", 50)];
    view.stalls = vec![StallRow {
        fiber: "fiber 'hog'".to_owned(),
        worker: 0,
        ago_ms: 3_700_000,
        lasted_ms: 40,
        has_ended: false,
        cause: "it computes".to_owned(),
    }];
    view
}

fn shown(screen: &Screen, width: u16, height: u16, has_colors: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen, Palette { has_colors })).unwrap();
    terminal
}

fn lines(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let terminal = shown(screen, width, height, true);
    let cells = terminal.backend().buffer().content();
    let rows = cells.chunks(usize::from(width).max(1));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    screen.update(Update::View(Box::new(view())));
    screen
}

fn press(screen: &mut Screen, code: KeyCode) -> Action {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// The ids of the waits, in the order in which they are shown.
fn order(screen: &Screen) -> Vec<&str> {
    screen.view.slowest.iter().map(|wait| &wait.id[..]).collect()
}

#[test]
fn all_tables_are_shown_on_a_usual_terminal() {
    let text = lines(&screen(), 120, 40).join("\n");
    for part in [
        "process 4711  1,234,567 strands",
        "waiting 1,234,567  runnable 0",
        "worker 0",
        "######....  62 %",
        "ramie has not answered",
        "1,234,000",
        "1m 1s",
        "src/main.rs:12",
        "since *",
        "beta (1.1)",
        "fiber 'hog'",
        "1h 1m",
        ">40 ms",
        "q quit",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn the_slowest_wait_comes_first_and_keys_sort() {
    let mut screen = screen();
    assert_eq!(order(&screen), ["2.1", "1.1", "3.1"]);
    for (key, expected) in [
        ('n', ["2.1", "3.1", "1.1"]),
        ('k', ["1.1", "2.1", "3.1"]),
        ('a', ["3.1", "1.1", "2.1"]),
        ('w', ["2.1", "1.1", "3.1"]),
        ('s', ["2.1", "1.1", "3.1"]),
    ] {
        assert_eq!(press(&mut screen, KeyCode::Char(key)), Action::Nothing);
        assert_eq!(order(&screen), expected, "{key}");
    }
}

#[test]
fn the_selection_stays_on_its_wait_and_opens_it() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.selected(), Some(1));
    let mut next = view();
    next.slowest[0].since_ms = 60_000;
    screen.update(Update::View(Box::new(next)));
    assert_eq!((order(&screen)[0], screen.selected()), ("1.1", Some(0)));
    assert_eq!(press(&mut screen, KeyCode::Enter), Action::Ask("1.1".to_owned()));
    assert!(lines(&screen, 80, 24).join("\n").contains("asking"));
    // The answer to an earlier question changes nothing.
    screen.update(Update::Strand { id: "9.1".to_owned(), text: "another".to_owned() });
    let text = "fiber 'beta'\n\u{1b}[31mred\ncall".to_owned();
    screen.update(Update::Strand { id: "1.1".to_owned(), text });
    let text = lines(&screen, 80, 24).join("\n");
    assert!(text.contains("beta (1.1)") && text.contains("call"), "{text}");
    assert!(!text.contains("another") && !text.contains('\u{1b}'), "{text}");
    press(&mut screen, KeyCode::End);
    assert!(!lines(&screen, 80, 24).join("\n").contains("red"));
    press(&mut screen, KeyCode::PageUp);
    assert!(lines(&screen, 80, 24).join("\n").contains("red"));
    press(&mut screen, KeyCode::Esc);
    assert!(screen.detail.is_none());
    // A wait that has ended is not selected any more.
    screen.update(Update::View(Box::default()));
    assert_eq!(screen.selected(), None);
    assert_eq!(press(&mut screen, KeyCode::Enter), Action::Nothing);
    for key in [KeyCode::Up, KeyCode::Down, KeyCode::End, KeyCode::PageUp] {
        press(&mut screen, key);
    }
}

#[test]
fn a_pause_keeps_the_view_and_a_problem_is_shown() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('p'));
    screen.update(Update::View(Box::default()));
    assert_eq!(order(&screen).len(), 3);
    assert!(lines(&screen, 80, 24)[0].contains("PAUSED"));
    press(&mut screen, KeyCode::Char('p'));
    assert!(order(&screen).is_empty());
    screen.update(Update::Problem("process 4711 did not answer".to_owned()));
    assert!(lines(&screen, 80, 24)[23].contains("did not answer"));
    screen.update(Update::View(Box::default()));
    assert!(lines(&screen, 80, 24)[23].contains("q quit"));
}

#[test]
fn help_is_opened_and_closed_and_q_and_ctrl_c_end() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('?'));
    assert!(lines(&screen, 80, 24).join("\n").contains("sort the waits"));
    assert_eq!(press(&mut screen, KeyCode::Enter), Action::Nothing);
    assert!(!screen.has_help);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Quit);
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    assert_eq!(screen.key(control('c')), Action::Quit);
    assert_eq!(screen.key(control('q')), Action::Nothing);
}

#[test]
fn small_terminals_show_less_and_do_not_panic() {
    let mut many = view();
    many.workers = vec![many.workers[0].clone(); 100];
    many.slowest = (0..50).map(|at| wait(&format!("{at}.1"), "x", at)).collect();
    let mut screen = Screen::default();
    screen.update(Update::View(Box::new(many)));
    for help in [false, true] {
        screen.has_help = help;
        for width in [1, 2, 3, 10, 40, 80, 300] {
            for height in [1, 2, 3, 4, 7, 9, 10, 12, 24, 100] {
                lines(&screen, width, height);
            }
        }
    }
    screen.has_help = false;
    press(&mut screen, KeyCode::End);
    let text = lines(&screen, 80, 24).join("\n");
    assert!(text.contains("4/100") && text.contains("x (0.1)"), "{text}");
    let text = lines(&screen, 80, 8).join("\n");
    assert!(text.contains("x (0.1)") && !text.contains("/100"), "{text}");
    press(&mut screen, KeyCode::Enter);
    for (width, height) in [(1, 1), (2, 2), (3, 5), (80, 3)] {
        lines(&screen, width, height);
    }
}

#[test]
fn without_colours_only_the_weight_differs() {
    let colors = |has_colors| {
        let terminal = shown(&screen(), 80, 24, has_colors);
        let content = terminal.backend().buffer().content().to_vec();
        let colored = content.iter().filter(|cell| cell.fg != Color::Reset).count();
        let reversed = content.iter().filter(|c| c.modifier.contains(Modifier::REVERSED)).count();
        (colored > 0, reversed > 0)
    };
    assert_eq!(colors(true), (true, true));
    assert_eq!(colors(false), (false, true));
}

#[test]
fn numbers_and_times_are_short() {
    let numbers = [0, 999, 1000, 1_234_567].map(grouped);
    assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    let times = [0, 999, 1000, 59_999, 60_000, 3_600_000].map(time);
    assert_eq!(times, ["0 ms", "999 ms", "1.0 s", "59.9 s", "1m 0s", "1h 0m"]);
}

/// The test runs itself once more, in a terminal of its own.
#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    const CHILD: &str = "RAMIE_TEST_IN_TERMINAL";
    if env::var_os(CHILD).is_some() {
        let mut session = TakenTerminal::begin().expect("a terminal");
        session.draw(|frame| draw(frame, &screen(), Palette { has_colors: true })).unwrap();
        panic!("on purpose");
    }
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let before = tcgetattr(&theirs).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    let test = "top::tests::a_panic_gives_the_terminal_back_before_its_message";
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1").env("RUST_BACKTRACE", "0").stdin(theirs.try_clone().unwrap());
    command.stdout(theirs.try_clone().unwrap()).stderr(Stdio::from(theirs.try_clone().unwrap()));
    let mut child = command.spawn().unwrap();
    drop(command);
    // Read by a thread, until no descriptor of the other side is left.
    let reading = std::thread::spawn(move || {
        let mut written = Vec::new();
        // The end is an error of a terminal.
        let _ = File::from(ours).read_to_end(&mut written);
        String::from_utf8_lossy(&written).into_owned()
    });
    assert!(!child.wait().unwrap().success());
    let after = tcgetattr(&theirs).unwrap();
    assert!(after.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    assert_eq!(after.local_modes, before.local_modes);
    drop(theirs);
    let written = reading.join().unwrap();
    let [taken, given_back, message] = ["\u{1b}[?1049h", "\u{1b}[?1049l", "on purpose"]
        .map(|part| written.find(part).unwrap_or_else(|| panic!("no {part:?} in {written:?}")));
    assert!(taken < given_back && given_back < message, "{written:?}");
    assert!(written.contains("\u{1b}[?25h"), "the cursor is hidden");
}
