//! Values that arrive one after another.

use std::io::{BufRead, BufReader, BufWriter, Write};

use ramie::{net::TcpStream, process::Command};
use serde::{Deserialize, Serialize};

use crate::{
    harness::{Section, Tried},
    sections::support::{filter, over_socket},
};

const FILE: &str = "formats/values.rs";
/// How many values each section sends.
const COUNT: u32 = 2000;

pub(super) const SECTIONS: [Section; 4] = [
    Section {
        against: "Python's csv, itself over a socket",
        note: "Use `Reader::from_reader` and `Writer::from_writer`.",
        ..Section::new("csv", FILE, csv)
    },
    Section {
        against: "Python's json, itself over a socket",
        note: "`Deserializer::from_reader(..).into_iter()` returns each value when it has arrived. \
               The 127 levels of nesting that it allows fit on the stack of a fiber.",
        ..Section::new("serde_json", FILE, serde_json)
    },
    Section {
        against: "itself over a socket",
        note: "Tried in version 2, where `decode_from_std_read` waits for the next value.",
        ..Section::new("bincode", FILE, bincode)
    },
    Section {
        against: "itself over a socket",
        note: "Use `to_io` and `from_io`; read frames in COBS by `BufRead::read_until`.",
        ..Section::new("postcard", FILE, postcard)
    },
];

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, bincode::Encode, bincode::Decode)]
struct Row {
    number: u32,
    name: String,
    weight: Option<f64>,
}

fn row(number: u32) -> Row {
    let weight = (!number.is_multiple_of(3)).then_some(f64::from(number) / 4.0);
    Row { number, name: format!("ä, \"{number}\"\n"), weight }
}

fn expect_all(rows: &[Row]) -> Tried {
    assert_eq!(rows.len(), COUNT as usize);
    assert!(rows.iter().zip(0..).all(|(found, number)| *found == row(number)));
    Ok(())
}

fn csv() -> Tried {
    let write = |out: &mut dyn Write| -> Tried {
        let mut writer = csv::Writer::from_writer(out);
        (0..COUNT).try_for_each(|number| writer.serialize(row(number)))?;
        Ok(writer.flush()?)
    };
    let script = "import csv,io,sys; t=io.TextIOWrapper(sys.stdin.buffer, newline=''); \
                  rows=list(csv.DictReader(t)); print(len(rows), rows[5]['weight'])";
    let said = filter(Command::new("python3").args(["-c", script]), |mut out| write(&mut out))?;
    assert_eq!(str::from_utf8(&said)?, "2000 1.25\n");
    let rows = over_socket(
        |mut out| write(&mut out),
        |stream| {
            Ok(csv::Reader::from_reader(stream).deserialize().collect::<Result<Vec<_>, _>>()?)
        },
    )?;
    expect_all(&rows)
}

fn serde_json() -> Tried {
    let write = |out: &mut dyn Write| -> Tried {
        let mut out = BufWriter::new(out);
        for number in 0..COUNT {
            serde_json::to_writer(&mut out, &row(number))?;
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    };
    let script = "import json,sys; rows=[json.loads(line) for line in sys.stdin.buffer]; \
                  print(len(rows), rows[5]['weight'], rows[3]['weight'])";
    let said = filter(Command::new("python3").args(["-c", script]), |mut out| write(&mut out))?;
    assert_eq!(str::from_utf8(&said)?, "2000 1.25 None\n");
    let nested = "[".repeat(127) + &"]".repeat(127);
    let parsed: serde_json::Value = serde_json::from_str(&nested)?;
    assert_eq!(parsed.to_string(), nested);
    let rows = over_socket(
        |mut out| write(&mut out),
        |stream| {
            let values = serde_json::Deserializer::from_reader(BufReader::new(stream));
            Ok(values.into_iter().collect::<Result<Vec<_>, _>>()?)
        },
    )?;
    expect_all(&rows)
}

fn bincode() -> Tried {
    let config = bincode::config::standard();
    let rows = over_socket(
        |stream| {
            let mut out = BufWriter::new(stream);
            for number in 0..COUNT {
                bincode::encode_into_std_write(row(number), &mut out, config)?;
            }
            Ok(out.flush()?)
        },
        |stream: TcpStream| {
            let mut from = BufReader::new(stream);
            let next = |_| bincode::decode_from_std_read(&mut from, config);
            Ok((0..COUNT).map(next).collect::<Result<Vec<Row>, _>>()?)
        },
    )?;
    expect_all(&rows)
}

fn postcard() -> Tried {
    let rows = over_socket(
        |stream| {
            let mut out = BufWriter::new(stream);
            for number in 0..COUNT / 2 {
                postcard::to_io(&row(number), &mut out)?;
            }
            for number in COUNT / 2..COUNT {
                out.write_all(&postcard::to_stdvec_cobs(&row(number))?)?;
            }
            Ok(out.flush()?)
        },
        |stream| {
            let mut from = BufReader::new(stream);
            let mut rows = Vec::new();
            for _ in 0..COUNT / 2 {
                rows.push(postcard::from_io((&mut from, &mut [0; 256]))?.0);
            }
            let mut frame = Vec::new();
            while from.read_until(0, &mut frame)? > 0 {
                rows.push(postcard::from_bytes_cobs(&mut frame)?);
                frame.clear();
            }
            Ok(rows)
        },
    )?;
    expect_all(&rows)
}
