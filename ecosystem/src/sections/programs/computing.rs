//! Crates that compute for long, so they would keep the worker.

use std::io::Cursor;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::harness::{Kind, Section, Tried, Way};

const FILE: &str = "programs/computing.rs";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Computing,
        way: Way::Pool,
        note: "Decoding a photo takes longer than other fibers should wait.",
        ..Section::new("image", FILE, image)
    },
    Section {
        kind: Kind::Computing,
        way: Way::Pool,
        note: "A fiber that calls rayon directly blocks its worker until rayon's threads are \
               ready. The closure may borrow from the fiber.",
        ..Section::new("rayon", FILE, rayon)
    },
];

fn image() -> Tried {
    let (width, height) = (1500, 1000);
    let pixel = |x, y| image::Rgb([(x % 256) as u8, (y % 256) as u8, ((x * y) % 256) as u8]);
    let thumbnail = ramie::blocking(|| -> image::ImageResult<_> {
        let picture = image::RgbImage::from_fn(width, height, pixel);
        let mut png = Cursor::new(Vec::new());
        picture.write_to(&mut png, image::ImageFormat::Png)?;
        let back = image::load_from_memory(png.get_ref())?;
        assert_eq!(back.to_rgb8().get_pixel(700, 500), &pixel(700, 500));
        Ok(back.thumbnail(150, 150))
    })?;
    assert_eq!((thumbnail.width(), thumbnail.height()), (150, 100));
    Ok(())
}

fn rayon() -> Tried {
    let numbers: Vec<u64> = ramie::blocking(|| (0..3_000_000).collect());
    let digits = |number: &u64| number.to_string().len();
    let sum: usize = ramie::blocking(|| (&numbers).into_par_iter().map(digits).sum());
    // As many digits as there are numbers of one, two, … seven.
    assert_eq!(sum, 10 + 2 * 90 + 3 * 900 + 4 * 9_000 + 5 * 90_000 + 6 * 900_000 + 7 * 2_000_000);
    Ok(())
}
