//! What is isolated and what is not, by method: the same facts for every plan.
//!
//! From NVIDIA's MIG user guide, the device plugin's README on sharing and its source. Whether a fact matters for this
//! pool is said by the plan's risks.

use serde::Serialize;
use slicewright_core::policy::Method;

/// One property, with a whole card and then.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Property {
    /// What it is about.
    pub(super) what: &'static str,
    /// With a whole card.
    pub(super) today: &'static str,
    /// With the method.
    pub(super) then: &'static str,
}

const fn property(what: &'static str, today: &'static str, then: &'static str) -> Property {
    Property { what, today, then }
}

const MIG: &[Property] = &[
    property(
        "Memory",
        "the whole card's",
        "**isolated**: the slice's size is a hard limit, by hardware; more than that is an out-of-memory error",
    ),
    property("Compute", "all SMs", "**isolated**: the slice's own SMs, always; no bursts above them"),
    property("Memory bandwidth, L2 cache", "the whole card's", "**isolated**: the slice's share"),
    property(
        "Faults",
        "own card",
        "**isolated** between slices for errors of a process; a fault of the card or a node restart hits all its slices",
    ),
    property("Driver, PCIe, power, heat", "own card", "**shared** with the other slices of the card"),
    property("P2P, NVLink, NCCL between cards", "possible", "**not possible** from a slice"),
    property(
        "Metrics",
        "all",
        "per slice with `GPU_I_PROFILE`; `DCGM_FI_DEV_GPU_UTIL` is not reported for slices",
    ),
    property("To change the size later", "—", "the card is drained and cut anew"),
];

const TIME_SLICING: &[Property] = &[
    property(
        "Memory",
        "the whole card's",
        "**not isolated**: any pod can take all of it, and the others then fail with out-of-memory errors",
    ),
    property(
        "Compute",
        "all SMs",
        "**not isolated**: busy pods take turns, without a guaranteed share; each is slower while others work",
    ),
    property("Memory bandwidth, L2 cache", "the whole card's", "**not isolated**"),
    property("Faults", "own card", "**not isolated**: a fault that resets the card ends every pod on it"),
    property(
        "Requests for more than one",
        "more cards",
        "refused where `failRequestsGreaterThanOne` is set: a replica is not a card",
    ),
    property("Metrics", "per pod", "per card only: DCGM cannot tell the pods apart"),
    property(
        "To change it later",
        "—",
        "the device plugin restarts with the node's label; running pods stay",
    ),
];

const MPS: &[Property] = &[
    property(
        "Memory",
        "the whole card's",
        "**limited**: an equal share a client, enforced by the MPS server",
    ),
    property("Compute", "all SMs", "**limited**: a cap of an equal share a client; not reserved"),
    property("Memory bandwidth, L2 cache", "the whole card's", "**not isolated**"),
    property(
        "Faults",
        "own card",
        "**not isolated**: one client's fatal fault ends the shared server and all clients",
    ),
    property("Compute mode", "default", "exclusive process: tools that expect the default mode fail"),
    property("Metrics", "per pod", "per card only"),
    property("Maturity", "—", "experimental in NVIDIA's device plugin"),
];

/// What changes with `method`, most important first.
pub(super) fn properties(method: Method) -> &'static [Property] {
    match method {
        Method::Mig => MIG,
        Method::TimeSlicing => TIME_SLICING,
        Method::Mps => MPS,
        Method::KeepWhole => &[],
    }
}

/// The isolation in one clause.
pub(super) fn in_short(method: Method) -> &'static str {
    match method {
        Method::Mig => "memory, compute and faults stay isolated by hardware",
        Method::TimeSlicing => "memory, compute and faults are NOT isolated between the pods of a card",
        Method::Mps => "memory is limited by the MPS server, faults are NOT isolated",
        Method::KeepWhole => "nothing is shared",
    }
}
