//! Driver versions and compute capabilities: dotted numbers that are compared number by number.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A driver version (`550.90.07`) or a driver branch (`R525`).
///
/// A branch is less than each of its versions, so that `driver >= minimum` reads the same for both.
/// Two spellings of one version (`R525`, `525`) are equal; each prints as it was read.
///
/// ```
/// use slicewright_core::catalog::DriverVersion;
/// let version = |text: &str| text.parse::<DriverVersion>().unwrap();
/// assert!(version("525.60.13") >= version("R525"));
/// assert!(version("550.90.07") > version("550.54.15"));
/// assert!(version("R510") > version("470.256.02"));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DriverVersion {
    /// The numbers of `text`, at least one.
    numbers: Vec<u32>,
    text: String,
}

impl DriverVersion {
    /// The branch, 550 of `550.90.07`.
    pub fn branch(&self) -> u32 {
        self.numbers[0]
    }
}

impl FromStr for DriverVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = match text.strip_prefix('R') {
            Some(branch) => numbers(branch, 1..=1),
            None => numbers(text, 1..=3),
        };
        match numbers {
            Some(numbers) => Ok(Self { numbers, text: text.to_owned() }),
            None => Err(VersionError {
                text: text.to_owned(),
                wanted: "a driver version such as `550.90.07` or `R525`",
            }),
        }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for DriverVersion {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

impl Eq for DriverVersion {}

impl PartialOrd for DriverVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DriverVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers)
    }
}

impl TryFrom<String> for DriverVersion {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DriverVersion> for String {
    fn from(version: DriverVersion) -> Self {
        version.text
    }
}

/// CUDA's compute capability, `8.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ComputeCapability {
    /// 8 of `8.9`; the node label `nvidia.com/gpu.compute.major`.
    pub major: u32,
    /// 9 of `8.9`; the node label `nvidia.com/gpu.compute.minor`.
    pub minor: u32,
}

impl ComputeCapability {
    /// MPS enforces a share of memory and threads for each client: from Volta on (CUDA documentation, Multi-Process
    /// Service).
    pub fn mps_limits_clients(self) -> bool {
        self.major >= 7
    }

    /// The most clients that one MPS server takes: 48 from 7.5 on, else 16
    /// (NVIDIA/k8s-device-plugin:cmd/mps-control-daemon/mps).
    pub fn mps_max_replicas(self) -> u32 {
        if self >= (Self { major: 7, minor: 5 }) { 48 } else { 16 }
    }
}

impl FromStr for ComputeCapability {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match numbers(text, 2..=2).as_deref() {
            Some(&[major, minor]) => Ok(Self { major, minor }),
            Some(_) | None => {
                Err(VersionError { text: text.to_owned(), wanted: "a compute capability such as `8.9`" })
            }
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl TryFrom<String> for ComputeCapability {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ComputeCapability> for String {
    fn from(capability: ComputeCapability) -> Self {
        capability.to_string()
    }
}

/// A text that is not the version it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct VersionError {
    /// The text.
    pub text: String,
    /// What was expected, with an example.
    pub wanted: &'static str,
}

fn numbers(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<Vec<u32>> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    };
    let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    count.contains(&numbers.len()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> DriverVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        let ascending = [
            "R450",
            "450.80.02",
            "460.73.01",
            "R470",
            "470.57",
            "R525",
            "525.85.12",
            "550.90.07",
            "550.127.05",
            "575.51.03",
            "575.64",
        ];
        assert!(ascending.map(version).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_version_prints_as_it_was_read() {
        for text in ["550.90.07", "R525", "575.64", "570"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("R525"), version("525"));
        assert_eq!(version("550.90.07").branch(), 550);
    }

    #[test]
    fn what_is_no_version_is_refused_with_an_example() {
        for text in ["", "R", "R525.1", "550.", "550.90.07-grid", "r525", "1.2.3.4", "99999999", "-1", "+5"] {
            assert!(text.parse::<DriverVersion>().is_err(), "{text}");
        }
        let error = "latest".parse::<DriverVersion>().unwrap_err();
        assert_eq!(error.to_string(), "`latest` is not a driver version such as `550.90.07` or `R525`");
    }

    #[test]
    fn mps_takes_48_clients_from_turing_on() {
        let replicas = |text: &str| text.parse::<ComputeCapability>().unwrap().mps_max_replicas();
        assert_eq!(["6.0", "7.0", "7.5", "8.9", "10.3", "12.0"].map(replicas), [16, 16, 48, 48, 48, 48]);
        assert!("8".parse::<ComputeCapability>().is_err());
    }
}
