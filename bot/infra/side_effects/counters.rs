//! Alerts and dashboards on counters that have no value under MIG.

use crate::infra::repository::{Repository, is_yaml};

/// Counters that have no value for MIG instances (NVML does not support utilisation rates there), and what does.
const WITHOUT_MIG: [(&str, &str); 2] = [
    ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"),
];

/// Longest text that is searched for the counter; dashboards are smaller.
const MAX_SEARCHED: usize = 4 * 1024 * 1024;

/// Alerts and dashboards on counters that vanish under MIG, one sentence a file and counter; those of the whole
/// repository, as monitoring is often declared for all clusters in one place.
pub(super) fn counters(repository: &Repository<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.texts.iter().chain(repository.elsewhere()) {
        let searched = is_yaml(path)
            || [".json", ".jsonnet", ".libsonnet", ".tpl", ".rules"].iter().any(|end| path.ends_with(end));
        if !searched || text.len() > MAX_SEARCHED {
            continue;
        }
        for (counter, instead) in WITHOUT_MIG {
            if !text.contains(counter) {
                continue;
            }
            let mut lines = text.lines().enumerate().filter(|(_, line)| line.contains(counter));
            let Some((first, _)) = lines.next() else { continue };
            let more = match lines.count() {
                0 => String::new(),
                1 => " (and on 1 more line)".to_owned(),
                n => format!(" (and on {n} more lines)"),
            };
            found.push(format!(
                "`{path}:{}`{more}: reads `{counter}`, which is missing or 0 for cards under MIG; `{instead}` is there.",
                first + 1
            ));
        }
    }
    found
}
