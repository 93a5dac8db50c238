//! How many clients one card may have under MPS as NVIDIA's device plugin runs it.
//!
//! The plugin gives every client `total memory ÷ replicas` and `100 ÷ replicas` percent of the threads, both rounded down
//! (NVIDIA/k8s-device-plugin:cmd/mps-control-daemon/mps/daemon.go), so that the largest single client decides, besides
//! the worst sum that time-slicing looks at.

use super::time_slicing::{Group, Limits, Pod, time_slicing};

/// One pod under MPS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Its measured peaks.
    pub pod: Pod,
    /// Memory that its share must hold, peak and headroom, in MiB.
    pub need_mib: u64,
    /// Compute that its share must hold, in thousandths of the card's SMs.
    pub need_milli: u32,
}

/// What one client may take of `framebuffer_mib` when a card has `replicas` of them, in MiB.
pub fn memory_share(framebuffer_mib: u64, replicas: u32) -> u64 {
    framebuffer_mib / u64::from(replicas.max(1))
}

/// What one client may use of the card's threads when a card has `replicas` of them, in thousandths: whole percents.
pub fn threads_milli(replicas: u32) -> u32 {
    100 / replicas.max(1) * 10
}

/// The most clients a card, all in one group: shares that hold the largest need, and a worst sum within `limits`.
/// `framebuffer_mib` is what the server divides.
pub fn mps(clients: &[Client], framebuffer_mib: u64, limits: &Limits) -> Group {
    let need_mib = clients.iter().map(|client| client.need_mib).max().unwrap_or(0);
    let need_milli = clients.iter().map(|client| client.need_milli).max().unwrap_or(0);
    let largest_fits =
        |k: &u32| memory_share(framebuffer_mib, *k) >= need_mib && threads_milli(*k) >= need_milli;
    // Shares only shrink with more clients.
    let most = (1..=limits.max_replicas).take_while(largest_fits).last().unwrap_or(0);
    let pods: Vec<Pod> = clients.iter().map(|client| client.pod.clone()).collect();
    time_slicing(&pods, &Limits { max_replicas: most, ..*limits }).one
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        card_mib: 18_422,
        headroom_percent: 0,
        context_mib: 0,
        compute_limit_milli: 700,
        max_replicas: 8,
    };

    fn clients(needs: &[(u64, u32)]) -> Vec<Client> {
        needs
            .iter()
            .enumerate()
            .map(|(i, (need_mib, need_milli))| Client {
                pod: Pod {
                    key: format!("p{i}"),
                    peak_mib: need_mib * 5 / 6,
                    compute_milli: u64::from(*need_milli) * 3 / 4,
                },
                need_mib: *need_mib,
                need_milli: *need_milli,
            })
            .collect()
    }

    fn check(needs: &[(u64, u32)], expected: u32) {
        assert_eq!(mps(&clients(needs), 23_028, &LIMITS).replicas, expected, "{needs:?}");
    }

    #[test]
    fn the_largest_client_decides_the_share_of_all() {
        // A fifth of 23,028 MiB is 4,605, a third 7,676.
        let beside = |need_mib: u64| [vec![(need_mib, 20)], vec![(600, 20); 5]].concat();
        check(&beside(4_605), 5);
        check(&beside(4_606), 4);
        check(&beside(7_676), 3);
        check(&beside(7_677), 2);
        check(&[(11_515, 20), (600, 20)], 1);
    }

    #[test]
    fn threads_are_capped_in_whole_percents() {
        assert_eq!([2, 3, 6, 7, 48].map(threads_milli), [500, 330, 160, 140, 20]);
        check(&[(600, 330), (600, 10), (600, 10), (600, 10)], 3);
        check(&[(600, 331), (600, 10), (600, 10), (600, 10)], 2);
    }

    #[test]
    fn the_worst_sums_hold_as_for_time_slicing() {
        check(&[(600, 160); 8], 5);
        check(&[(600, 20); 20], 8);
        // Six peaks of 3,837 MiB are more than the 18,422 that may be used, although each fits its share.
        check(&[(4_605, 20); 6], 4);
    }
}
