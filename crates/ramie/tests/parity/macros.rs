//! std's macros that can block, or that make values for each strand, in use.

use super::std;
use std::{cell::Cell, thread::LocalKey};

std::thread_local! {
    static PLAIN: Cell<usize> = Cell::new(std::thread::current().name().map_or(0, str::len));
    static CONSTANT: Cell<usize> = const { Cell::new(2) };
}

macros! {
    thread_local => (|| -> [&'static LocalKey<Cell<usize>>; 2] { [&PLAIN, &CONSTANT] });
    print => (|| { std::print!("a"); std::print!("{}", 1); });
    println => (|| { std::println!(); std::println!("{0} {name}", 1, name = 2); });
    eprint => (|| { std::eprint!("a"); std::eprint!("{}", 1); });
    eprintln => (|| { std::eprintln!(); std::eprintln!("{}", 1); });
    dbg => (|| -> (u8, (u8, &str)) {
        std::dbg! {};
        (std::dbg! { 1 }, std::dbg! { 1, "two" })
    });
}

pub(crate) fn left_to_std() -> Vec<&'static str> {
    Vec::new()
}

pub(crate) fn twins() -> Vec<&'static str> {
    macros()
}
