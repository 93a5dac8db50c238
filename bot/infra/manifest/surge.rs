//! How many pods more than its replicas a workload has while it rolls.

use crate::infra::kinds::{Carrier, Surge};
use crate::infra::walk::{self, At};

pub(super) fn number(root: &At<'_>, dotted: &str) -> Option<u32> {
    walk::text(root.node, dotted)?.parse().ok()
}

/// A number, or a percentage of `replicas` rounded up.
fn share_of(text: &str, replicas: u32) -> Option<u32> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.trim().parse().ok().filter(|percent| *percent <= 10_000)?;
            u32::try_from((u64::from(replicas) * percent).div_ceil(100)).ok()
        }
        None => text.parse().ok(),
    }
}

/// Extra pods while the workload rolls, as written or as Kubernetes does when nothing is written.
pub(super) fn max_surge(root: &At<'_>, carrier: &Carrier, replicas: Option<u32>) -> Option<u32> {
    let replicas = replicas.unwrap_or(1);
    let stated =
        |dotted: &str, default: &str| share_of(walk::text(root.node, dotted).unwrap_or(default), replicas);
    match carrier.surge {
        Surge::Never => Some(0),
        Surge::Deployment if walk::text(root.node, "spec.strategy.type") == Some("Recreate") => Some(0),
        Surge::Deployment => stated("spec.strategy.rollingUpdate.maxSurge", "25%"),
        Surge::DaemonSet => stated("spec.updateStrategy.rollingUpdate.maxSurge", "0"),
        Surge::Rollout if walk::down(root.node, "spec.strategy.blueGreen").is_some() => Some(replicas),
        Surge::Rollout => stated("spec.strategy.canary.maxSurge", "25%"),
        Surge::LeaderWorkerSet => stated("spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge", "0"),
        Surge::Unknown => None,
    }
}

/// Extra pods while a workload rolls that says nothing about it.
pub(in crate::infra) fn rolling(surge: Surge, replicas: Option<u32>) -> Option<u32> {
    match surge {
        Surge::Never | Surge::DaemonSet | Surge::LeaderWorkerSet => Some(0),
        Surge::Deployment | Surge::Rollout => share_of("25%", replicas.unwrap_or(1)),
        Surge::Unknown => None,
    }
}
