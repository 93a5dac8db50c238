//! What the repository says about memory that a framework takes at start.

use super::{Reservation, WorkloadProfile};
use crate::units::Ratio;

/// Flags and variables that set a share of the card's memory to take at start: name, framework.
const SHARES: [(&str, &str); 7] = [
    ("--gpu-memory-utilization", "vLLM"),
    ("--gpu_memory_utilization", "vLLM"),
    ("--mem-fraction-static", "SGLang"),
    ("--cuda-memory-fraction", "TGI"),
    ("CUDA_MEMORY_FRACTION", "TGI"),
    ("XLA_PYTHON_CLIENT_MEM_FRACTION", "JAX"),
    ("XLA_CLIENT_MEM_FRACTION", "JAX"),
];

/// Variables that switch taking memory at start on: name, the value that does, framework.
const SWITCHES: [(&str, &str, &str); 2] =
    [("XLA_PYTHON_CLIENT_PREALLOCATE", "true", "JAX"), ("TF_FORCE_GPU_ALLOW_GROWTH", "false", "TensorFlow")];

/// Notes a reservation that the flags prove; one that the series showed already gets its framework's name.
///
/// `flags` are as written: `--gpu-memory-utilization=0.9`, `XLA_PYTHON_CLIENT_MEM_FRACTION=.5`.
pub fn with_flags(profile: &mut WorkloadProfile, flags: &[String]) {
    for flag in flags {
        let Some((name, value)) = flag.split_once(['=', ' ']) else { continue };
        let value = value.trim().trim_matches(['"', '\'']);
        let share = SHARES.iter().find(|(known, _)| *known == name);
        let switch = SWITCHES.iter().find(|(known, on, _)| *known == name && value.eq_ignore_ascii_case(on));
        let Some(framework) = share.map(|(_, f)| *f).or(switch.map(|(_, _, f)| *f)) else { continue };
        match &mut profile.reservation {
            Some(reservation) => {
                reservation.framework.get_or_insert_with(|| framework.to_owned());
            }
            None => {
                profile.reservation = Some(Reservation {
                    share_of_card: value.parse().ok().and_then(Ratio::from_f64).unwrap_or(Ratio::ONE),
                    evidence: format!("`{flag}` in the repository"),
                    framework: Some(framework.to_owned()),
                });
            }
        }
    }
}
