//! Random tokens. The one in the URL keeps other users of the machine out, because they can reach
//! a port of the loopback device, too.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::failure::Failure;

const BYTES: usize = 16;

/// 128 random bits, in hexadecimal digits.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn random() -> Result<Token, Failure> {
        let mut bytes = [0; BYTES];
        // Whole, because up to 256 bytes are not interrupted once the kernel's pool is ready.
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(BYTES) => {}
            Ok(_) => return Err(Failure::other("the kernel gave too few random bytes; try again")),
            Err(error) => {
                return Err(Failure::other(format!("no random bytes from the kernel: {error}")));
            }
        }
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. The time does not depend on where they differ, because a client
    /// could otherwise guess it digit by digit.
    pub(super) fn is(&self, given: &str) -> bool {
        let differs = |(own, given): (u8, u8)| own ^ given;
        given.len() == self.0.len()
            && self.0.bytes().zip(given.bytes()).map(differs).fold(0, |all, one| all | one) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let [token, other] = [(); 2].map(|()| Token::random().unwrap());
        assert_eq!(token.as_str().len(), 2 * BYTES);
        assert!(token.is(token.as_str()) && !token.is(other.as_str()));
        let mut last = token.as_str().to_owned();
        last.pop();
        assert!(!token.is(&last) && !token.is("") && !token.is(&format!("{}0", token.as_str())));
        let digit = if token.as_str().ends_with('0') { '1' } else { '0' };
        last.push(digit);
        assert!(!token.is(&last));
    }
}
