//! `ramie top` in a terminal: what it shows, its keys, and how it ends. Needs the feature `top`.
#![cfg(feature = "top")]

mod support;

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize},
};
use support::{Folder, PATIENCE, Server, assert_sentence, output, ramie, signal, text};

/// `ramie top` about a server, in a terminal of this test.
struct Top {
    server: Server,
    child: Child,
    ours: OwnedFd,
    theirs: File,
    /// All that was written to the terminal, read by a thread.
    written: std::sync::mpsc::Receiver<Vec<u8>>,
    /// What of it has been looked at.
    screen: String,
    before: Termios,
    _folder: Folder,
}

/// The program, whose sockets lie in the folder.
fn ramie_in(folder: &Folder, arguments: &str) -> Command {
    let mut command = ramie(arguments);
    command.env("XDG_RUNTIME_DIR", &folder.0).env_remove("RAMIE_INSPECT");
    command
}

impl Top {
    fn start(size: (u16, u16)) -> Top {
        let folder = Folder::new("top");
        let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
        command.env("RAMIE_INSPECT", "1");
        let server = Server::started(command);
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs =
            OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let (ws_col, ws_row) = size;
        let winsize = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, winsize).unwrap();
        let before = tcgetattr(&theirs).unwrap();
        let mut command = ramie_in(&folder, &format!("top {} --interval 0.1", server.child.id()));
        command.env("TERM", "xterm").stderr(Stdio::piped());
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let mut reader = File::from(ours.try_clone().unwrap());
        let (send, written) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(len @ 1..) = reader.read(&mut part) {
                if send.send(part[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = String::new();
        Top { server, child, ours, theirs, written, screen, before, _folder: folder }
    }

    fn press(&self, keys: &str) {
        File::from(self.ours.try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows this text.
    #[track_caller]
    fn wait_for(&mut self, part: &str) {
        let start = Instant::now();
        while !shown(&self.screen).contains(part) {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let Ok(more) = self.written.recv_timeout(left) else {
                panic!("no {part:?} in\n{}", shown(&self.screen));
            };
            self.screen += &text(&more);
        }
    }

    /// Waits for the end; returns the exit code and stderr.
    fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.wait_for_raw("\u{1b}[?1049l");
        let mut message = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        let now = tcgetattr(&self.theirs).unwrap();
        let usual = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(now.local_modes.contains(usual), "the terminal is still raw");
        assert_eq!(now.local_modes, self.before.local_modes);
        assert_eq!(now.input_modes, self.before.input_modes);
        (code, message)
    }

    /// Waits for bytes that control the terminal, and those that show the cursor.
    #[track_caller]
    fn wait_for_raw(&mut self, part: &str) {
        let start = Instant::now();
        while !self.screen.contains(part) || !self.screen.contains("\u{1b}[?25h") {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let more = self.written.recv_timeout(left);
            self.screen += &text(&more.unwrap_or_else(|_| panic!("no {part:?}")));
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text that a terminal of 200 columns and 60 lines shows after these bytes. It knows the
/// sequences by which the program moves the cursor and clears the screen.
fn shown(written: &str) -> String {
    const BLANK: [char; 200] = [' '; 200];
    let mut cells = vec![BLANK; 60];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                *cell = c;
            }
            column += 1;
            continue;
        }
        let mut sequence = String::new();
        while !sequence.ends_with(|c: char| c.is_ascii_alphabetic()) {
            let Some(next) = rest.next() else { break };
            sequence.push(next);
        }
        let numbers = sequence.trim_matches(|c: char| !c.is_ascii_digit());
        let mut numbers = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        match sequence.chars().last() {
            Some('H') => {
                row = numbers.next().unwrap_or(1) - 1;
                column = numbers.next().unwrap_or(1) - 1;
            }
            Some('J') => cells.fill(BLANK),
            _ => {}
        }
    }
    cells.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
}

#[test]
fn fibers_are_shown_and_keys_are_answered() {
    let mut top = Top::start((120, 40));
    let pid = top.server.child.id();
    top.wait_for(&format!("process {pid}"));
    top.wait_for("worker 0");
    top.wait_for("main (");
    // A load needs two views.
    top.wait_for(" %");
    top.press("n");
    top.wait_for("slowest waits *");
    // The last one by name is the strand that has one.
    top.press("\u{1b}[F\r");
    top.wait_for("Esc back");
    top.wait_for("fiber 'main' (");
    if cfg!(target_arch = "x86_64") {
        top.wait_for("ramie_http::server::");
    }
    top.press("\r");
    top.wait_for("q quit  ? keys");
    top.press("?");
    top.wait_for("sort the waits");
    top.press("?");
    top.press("p");
    top.wait_for("PAUSED");
    top.press("q");
    assert_eq!(top.end(), (Some(0), String::new()));
}

#[test]
fn ctrl_c_and_signals_give_the_terminal_back() {
    let mut top = Top::start((80, 24));
    top.wait_for("main");
    top.press("\u{3}");
    assert_eq!(top.end(), (Some(0), String::new()));
    for signalled in [Signal::TERM, Signal::INT] {
        let mut top = Top::start((20, 5));
        top.wait_for("q quit");
        signal(&top.child, signalled);
        assert_eq!(top.end(), (Some(0), String::new()));
    }
}

#[test]
fn the_end_of_the_process_ends_the_view_with_exit_code_1() {
    let mut top = Top::start((80, 24));
    top.wait_for("main");
    signal(&top.server.child, Signal::TERM);
    top.server.wait();
    let pid = top.server.child.id();
    assert_eq!(top.end(), (Some(1), format!("ramie: process {pid} has ended\n")));
}

#[test]
fn without_a_terminal_or_a_process_one_sentence_is_printed() {
    let folder = Folder::new("top");
    let own = std::process::id();
    let refused = output(ramie_in(&folder, &format!("top {own}")));
    assert_sentence(&refused, 1, &["needs a terminal", &format!("ramie inspect {own}"), "--web"]);
}
