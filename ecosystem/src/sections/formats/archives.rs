//! Compression and archives.

use std::{
    error::Error,
    io::{BufReader, Cursor, Read, Write},
};

use ramie::process::Command;

use crate::{
    harness::{Section, Tried},
    sections::support::{filter, over_socket},
};

const FILE: &str = "formats/archives.rs";

pub(super) const SECTIONS: [Section; 4] = [
    Section {
        against: "gzip, itself over a socket",
        note: "Tried with its feature `zlib-rs`. With the default backend, in a build without \
               optimisation, compressing takes more than 256 KiB of stack, so give such fibers a \
               larger one.",
        ..Section::new("flate2", FILE, flate2)
    },
    Section {
        against: "tar, itself over a socket",
        note: "`Builder` writes to any `Write`, `Archive` reads from any `Read`. Its calls that \
               take paths (`append_path`, `unpack`) use files of std; make them in \
               `ramie::blocking`.",
        ..Section::new("tar", FILE, tar)
    },
    Section {
        against: "Python's zipfile, itself over a socket",
        note: "`ZipWriter::new_stream` and `read_zipfile_from_stream` need no `Seek`; \
               `ramie::fs::File` has it. For builds without optimisation give the fiber 512 KiB \
               (`fiber::Builder::stack_size`).",
        stack_size: 512 << 10,
        ..Section::new("zip", FILE, zip)
    },
    Section {
        against: "itself over a socket",
        note: "Use `stream::Encoder` and `stream::Decoder`; the C library keeps its state on the \
               heap.",
        ..Section::new("zstd", FILE, zstd)
    },
];

/// 4 MiB that compress to about a tenth.
fn text() -> Vec<u8> {
    let lines = (0..).map(|line| format!("line {line} of a text that repeats itself\n"));
    lines.flat_map(String::into_bytes).take(4 << 20).collect()
}

fn compress(out: impl Write, text: &[u8]) -> Tried {
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    for piece in text.chunks(16 << 10) {
        encoder.write_all(piece)?;
        ramie::fiber::yield_now();
    }
    encoder.finish()?;
    Ok(())
}

fn flate2() -> Tried {
    let text = ramie::blocking(text);
    let by_gzip = filter(Command::new("gzip").arg("-dc"), |out| compress(out, &text))?;
    assert!(by_gzip == text);
    let back = over_socket(
        |out| compress(out, &text),
        |stream| Ok(read_in_turns(flate2::read::GzDecoder::new(stream))?),
    )?;
    assert!(back == text);
    Ok(())
}

/// Decompresses 4 MiB without keeping the worker for all that time.
fn read_in_turns(mut from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&piece[..count]),
        }
        ramie::fiber::yield_now();
    }
}

fn pack(out: impl Write) -> Tried {
    let mut builder = tar::Builder::new(out);
    for number in 0..100_u64 {
        let content = vec![number as u8; 1000];
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("folder/{number}"), &*content)?;
    }
    builder.into_inner()?.flush()?;
    Ok(())
}

fn tar() -> Tried {
    let names = filter(Command::new("tar").arg("-t"), pack)?;
    let names: Vec<_> = str::from_utf8(&names)?.lines().collect();
    assert!(names.len() == 100 && names[7] == "folder/7", "{names:?}");
    let sum = over_socket(pack, |stream| {
        let mut sum = 0;
        for entry in tar::Archive::new(BufReader::new(stream)).entries()? {
            let mut content = Vec::new();
            entry?.read_to_end(&mut content)?;
            sum += content.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
        Ok(sum)
    })?;
    assert_eq!(sum, 1000 * (0..100).sum::<u64>());
    Ok(())
}

/// One after another, as a pipe needs it.
fn write_zip(out: impl Write) -> Tried {
    let mut writer = zip::ZipWriter::new_stream(out);
    let options = zip::write::SimpleFileOptions::default();
    for number in 0..20 {
        writer.start_file(format!("{number}.txt"), options)?;
        writer.write_all(format!("file {number}\n").repeat(1000).as_bytes())?;
    }
    writer.finish()?.into_inner().flush()?;
    Ok(())
}

/// With sizes in front of each file, which a reader of a stream needs.
fn zip_in_memory() -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for number in 0..20 {
        writer.start_file(format!("{number}.txt"), options)?;
        writer.write_all(format!("file {number}\n").repeat(1000).as_bytes())?;
    }
    Ok(writer.finish()?.into_inner())
}

fn zip() -> Tried {
    let script = "import io,sys,zipfile; z=zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())); \
                  assert z.testzip() is None; \
                  print(len(z.namelist()), z.read('7.txt')[:7].decode())";
    let said = filter(Command::new("python3").args(["-c", script]), write_zip)?;
    assert_eq!(str::from_utf8(&said)?, "20 file 7\n\n");
    let sizes = over_socket(
        |mut out| Ok(out.write_all(&zip_in_memory()?)?),
        |mut stream| {
            let mut sizes = Vec::new();
            while let Some(mut file) = zip::read::read_zipfile_from_stream(&mut stream)? {
                let mut content = String::new();
                file.read_to_string(&mut content)?;
                sizes.push(content.len());
            }
            Ok(sizes)
        },
    )?;
    assert!(sizes.len() == 20 && sizes[7] == 7000, "{sizes:?}");
    Ok(())
}

fn zstd() -> Tried {
    let text = ramie::blocking(text);
    let compress = |out| {
        let mut encoder = zstd::stream::Encoder::new(out, 1)?;
        for piece in text.chunks(16 << 10) {
            encoder.write_all(piece)?;
            ramie::fiber::yield_now();
        }
        encoder.finish()?;
        Ok(())
    };
    let back =
        over_socket(compress, |stream| Ok(read_in_turns(zstd::stream::Decoder::new(stream)?)?))?;
    assert!(back == text);
    Ok(())
}
