//! The calls on files and paths, and how they are chosen.

use proptest::{prelude::*, strategy::Strategy};

/// One call. Handles and names are numbers of a few.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open { to: usize, name: usize, flags: u8 },
    Duplicate { from: usize, to: usize },
    Close(usize),
    Read { file: usize, len: usize },
    ReadVectored { file: usize, lens: (usize, usize) },
    ReadAt { file: usize, len: usize, at: u64 },
    ReadToEnd(usize),
    ReadExact { file: usize, len: usize },
    Write { file: usize, len: usize },
    WriteAll { file: usize, len: usize },
    WriteVectored { file: usize, lens: (usize, usize) },
    WriteAt { file: usize, len: usize, at: u64 },
    Buffered { file: usize, len: usize },
    Seek { file: usize, whence: u8, by: i64 },
    SetLen { file: usize, len: u64 },
    Sync(usize),
    Copy { from: usize, to: usize },
    Rename { from: usize, to: usize },
    Remove(usize),
    MakeDir(usize),
    RemoveDir(usize),
    Link { from: usize, to: usize },
    Symlink { from: usize, to: usize },
    CopyPath { from: usize, to: usize },
    ReadPath(usize),
    WritePath { name: usize, len: usize },
    Describe(usize),
    List,
}

fn lens() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![0..20usize, 1..5000usize, 60_000..70_000usize, 1..200_000usize]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let (file, name) = (0..3usize, 0..6usize);
    let at = prop_oneof![0..300_000u64, Just(i64::MAX as u64), Just(u64::MAX), Just(1 << 40)];
    let by = prop_oneof![-100_000..300_000i64, Just(i64::MIN), Just(i64::MAX)];
    let pair = (lens(), lens());
    let on_file = prop_oneof![
        (file.clone(), lens()).prop_map(|(file, len)| Read { file, len }),
        (file.clone(), pair.clone()).prop_map(|(file, lens)| ReadVectored { file, lens }),
        (file.clone(), lens(), at.clone()).prop_map(|(file, len, at)| ReadAt { file, len, at }),
        file.clone().prop_map(ReadToEnd),
        (file.clone(), lens()).prop_map(|(file, len)| ReadExact { file, len }),
        (file.clone(), lens()).prop_map(|(file, len)| Write { file, len }),
        (file.clone(), lens()).prop_map(|(file, len)| WriteAll { file, len }),
        (file.clone(), pair).prop_map(|(file, lens)| WriteVectored { file, lens }),
        (file.clone(), lens(), 0..300_000u64).prop_map(|(file, len, at)| WriteAt { file, len, at }),
        (file.clone(), lens()).prop_map(|(file, len)| Buffered { file, len }),
        (file.clone(), 0..3u8, by).prop_map(|(file, whence, by)| Seek { file, whence, by }),
        (file.clone(), prop_oneof![4 => 0..300_000u64, 1 => Just(u64::MAX)])
            .prop_map(|(file, len)| SetLen { file, len }),
        file.clone().prop_map(Sync),
        (file.clone(), file.clone()).prop_map(|(from, to)| Copy { from, to }),
    ];
    let on_names = prop_oneof![
        (name.clone(), name.clone()).prop_map(|(from, to)| Rename { from, to }),
        name.clone().prop_map(Remove),
        name.clone().prop_map(MakeDir),
        name.clone().prop_map(RemoveDir),
        (name.clone(), name.clone()).prop_map(|(from, to)| Link { from, to }),
        (name.clone(), name.clone()).prop_map(|(from, to)| Symlink { from, to }),
        (name.clone(), name.clone()).prop_map(|(from, to)| CopyPath { from, to }),
        name.clone().prop_map(ReadPath),
        (name.clone(), lens()).prop_map(|(name, len)| WritePath { name, len }),
        name.clone().prop_map(Describe),
        Just(List),
    ];
    prop_oneof![
        3 => (file.clone(), 0..8usize, any::<u8>())
            .prop_map(|(to, name, flags)| Open { to, name, flags }),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Duplicate { from, to }),
        1 => file.prop_map(Close),
        12 => on_file,
        3 => on_names,
    ]
}
