//! A workload as one word: its name and its numbers, such as `feed:2048:1000`.

use std::{fmt, str::FromStr};

use crate::{TaskCall, Workload, count};

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.numbers().iter().try_for_each(|(_, number)| write!(f, ":{number}"))
    }
}

/// Parses a word. The call of `basic` is [`TaskCall::Medium`], because a word has numbers only.
impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = words.map(count).collect();
        let numbers = numbers.map_err(|error| format!("{text}: {error}"))?;
        match (name, numbers.as_slice()) {
            ("feed", &[people, nutrients]) => Ok(Workload::feed(people, nutrients)),
            ("ring", &[size, hops]) => Ok(Workload::ring(size, hops.into())),
            ("spawn", &[count]) => Ok(Workload::spawn(count)),
            ("alive", &[count]) => Ok(Workload::alive(count)),
            ("switch", &[count]) => Ok(Workload::switch(count)),
            ("basic", &[yields]) => Ok(Workload::basic(yields, TaskCall::Medium)),
            ("recurse", &[depth]) => Ok(Workload::recurse(depth)),
            ("recurse2", &[depth]) => Ok(Workload::recurse2(depth)),
            ("pipe", &[pairs, messages, bytes]) => Ok(Workload::pipe(pairs, messages, bytes)),
            ("socketpair", &[pairs, messages, bytes]) => {
                Ok(Workload::socketpair(pairs, messages, bytes))
            }
            _ => Err(format!("unknown workload `{text}`: expected, for example, feed:2048:1000")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Workload;

    #[test]
    fn words_are_printed_as_they_are_parsed() {
        let words = "feed:2048:10 ring:500:1000 spawn:7 alive:8 switch:9 basic:100 recurse:1000 \
                     recurse2:1000 pipe:48:10000:1024 socketpair:48:10000:1024";
        for word in words.split_whitespace() {
            let workload: Workload = word.parse().unwrap();
            assert_eq!(workload.to_string(), word);
        }
    }

    #[test]
    fn words_that_are_no_workload_are_refused() {
        for word in ["", "feed", "feed:1", "feed:1:2:3", "feed:0:1", "feed:1:x", "spoon:1"] {
            assert!(word.parse::<Workload>().is_err(), "{word:?} was taken for a workload");
        }
    }
}
