//! The programs that the bench does not contain: their paths, and the remedy if one is missing.

use std::path::{Path, PathBuf};

use super::{Kind, nginx};

/// The folders and paths of the programs.
#[derive(Clone, Copy)]
pub struct Programs<'a> {
    pub ramie: &'a Path,
    /// The folder into which `peers/build` puts them.
    pub peers: &'a Path,
}

/// Where a kind's server is.
pub enum Source {
    /// In this program.
    Bench,
    Ramie,
    /// A program of `peers/build`, by its name, with the word that selects the server.
    Peer(&'static str, &'static str),
    Nginx,
}

impl Programs<'_> {
    pub fn peer(&self, name: &str) -> PathBuf {
        self.peers.join(name)
    }

    /// The missing programs of these kinds, each with the kinds that need it.
    pub fn missing(&self, kinds: &[Kind]) -> Vec<Missing> {
        let mut missing: Vec<Missing> = Vec::new();
        for kind in kinds {
            let Some(remedy) = self.remedy(*kind) else { continue };
            match missing.iter_mut().find(|other| other.remedy == remedy) {
                Some(other) => other.kinds.push(*kind),
                None => missing.push(Missing { kinds: vec![*kind], remedy }),
            }
        }
        missing
    }

    /// How to get the program of a kind, if it is not there.
    fn remedy(&self, kind: Kind) -> Option<String> {
        match kind.source() {
            Source::Peer(name, _) if !self.peer(name).exists() => {
                Some(format!("build {name} by `bench/peers/build {name}`"))
            }
            Source::Nginx if nginx::program().is_none() => {
                Some("install nginx, on Debian by `apt-get install nginx-light`".to_owned())
            }
            _ => None,
        }
    }
}

/// Kinds whose program is missing.
#[derive(Debug, PartialEq)]
pub struct Missing {
    pub kinds: Vec<Kind>,
    remedy: String,
}

impl Missing {
    pub fn report(&self) {
        let names: Vec<String> = self.kinds.iter().map(|kind| kind.name()).collect();
        eprintln!("SKIPPED: {}: {}", names.join(", "), self.remedy);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Kind, Missing, Programs};

    #[test]
    fn kinds_without_their_program_are_listed_with_one_remedy() {
        let nowhere = Path::new("/nonexistent");
        let programs = Programs { ramie: nowhere, peers: nowhere };
        let kinds = [Kind::Hyper, Kind::RamieHttp, Kind::GoNetHttp, Kind::Axum];
        let expected = [
            (vec![Kind::Hyper, Kind::Axum], "build rust-http by `bench/peers/build rust-http`"),
            (vec![Kind::GoNetHttp], "build go by `bench/peers/build go`"),
        ];
        let expected = expected.map(|(kinds, line)| Missing { kinds, remedy: line.to_owned() });
        assert_eq!(programs.missing(&kinds), expected);
    }
}
