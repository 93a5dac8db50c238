//! Whether the bot wrote a hidden block: anybody who may edit a proposal's text may write one.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A secret that the bot signs with. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

/// Fewest bytes of a key. Shorter ones can be guessed.
const SHORTEST: usize = 24;

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// A key of these bytes; `None` when there are fewer than 24.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= SHORTEST).then(|| Self(secret.to_vec()))
    }

    /// HMAC-SHA256 of `text` as 64 hexadecimal digits.
    pub(super) fn sign(&self, text: &str) -> String {
        self.mac(text).finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether `signature` is that of `text`; takes as long for any wrong one.
    pub(super) fn holds(&self, text: &str, signature: &str) -> bool {
        let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = signature.as_bytes().chunks(2).map(digit).collect();
        bytes.is_some_and(|bytes| self.mac(text).verify_slice(&bytes).is_ok())
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.chain_update(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_text_and_one_key() {
        let key = SigningKey::new(&[7; 24]).unwrap();
        let other = SigningKey::new(&[8; 24]).unwrap();
        let signature = key.sign("text");
        assert!(key.holds("text", &signature) && !key.holds("Text", &signature));
        assert!(!other.holds("text", &signature));
        for wrong in ["", "zz", &signature[..62], &format!("{signature}00"), "é"] {
            assert!(!key.holds("text", wrong), "{wrong}");
        }
        assert_eq!(SigningKey::new(b"short"), None);
        assert_eq!(format!("{key:?}"), "SigningKey(…)");
    }

    /// RFC 4231, test case 2.
    #[test]
    fn it_is_hmac_sha256() {
        let key = SigningKey(b"Jefe".to_vec());
        assert_eq!(
            key.sign("what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
