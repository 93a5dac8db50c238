//! What can be wrong with a service configuration that each of its parts reads.

use std::collections::BTreeSet;

use slicewright_core::plan::pool::PoolSettings;
use slicewright_core::policy::PolicySettings;
use slicewright_core::policy::rules::PolicyRule;

use super::{RepositorySettings, ServiceSettings};

impl ServiceSettings {
    /// What is wrong with the file as a whole: the place and the problem.
    ///
    /// # Errors
    /// With the first thing that is.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let wrong = |place: &str, problem: &str| Err((place.to_owned(), problem.to_owned()));
        if self.clusters.is_empty() {
            return wrong("clusters", "name at least one cluster");
        }
        if !(1..=400).contains(&self.window_days()) {
            return wrong("window_days", "must be between 1 and 400");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.branch_prefix().split('/').any(|part| part.is_empty() || !part.chars().all(plain)) {
            return wrong("branch_prefix", "must be a plain name such as `slicewright`");
        }
        if !self.author.email.contains('@') {
            return wrong("author.email", "must be an e-mail address that belongs to the bot alone");
        }
        if let Err((at, problem)) = self.proposals.check() {
            return wrong(&format!("proposals.{at}"), &problem);
        }
        let mut names = BTreeSet::new();
        for (i, forge) in self.forges.iter().enumerate() {
            if let Err((at, problem)) = forge.check() {
                return wrong(&format!("forges[{i}].{at}"), &problem);
            }
            if !names.insert(&forge.name) {
                return wrong(&format!("forges[{i}].name"), &format!("`{}` is named twice", forge.name));
            }
        }
        if let Err((at, problem)) = self.server.check(&self.forges) {
            return wrong(&format!("server.{at}"), &problem);
        }
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if self.handle().is_empty() || self.handle().len() > 64 || !self.handle().chars().all(named) {
            return wrong("handle", "must be a name that people can mention, such as `slicewright`");
        }
        let mut names = BTreeSet::new();
        for (i, cluster) in self.clusters.iter().enumerate() {
            let place = |rest: &str| format!("clusters[{i}].{rest}");
            if cluster.name.trim().is_empty() {
                return wrong(&place("name"), "name the cluster");
            }
            if !names.insert(&cluster.name) {
                return wrong(&place("name"), &format!("`{}` is named twice", cluster.name));
            }
            if cluster.prometheus.url.is_empty() {
                return wrong(
                    &place("prometheus.url"),
                    "say where Prometheus is: `https://prometheus.example.com`",
                );
            }
            self.check_repository(&cluster.repository, &place("repository"))?;
            let shares = self
                .clusters
                .iter()
                .enumerate()
                .any(|(n, other)| n != i && other.repository.same_as(&cluster.repository));
            if shares && !cluster.repository.says_which_files() {
                return wrong(
                    &place("repository.folders"),
                    "other clusters use the same repository: say which folders are this cluster's, or give `flux` or \
                     `argo_cd`",
                );
            }
            let repository = &cluster.repository;
            let folders = repository.folders.iter().chain(&repository.new_files).chain(&repository.flux);
            for folder in folders {
                if folder.starts_with('/') || folder.split('/').any(|part| part == "..") {
                    return wrong(
                        &place("repository"),
                        &format!("`{folder}` must stay inside the repository"),
                    );
                }
            }
            let mut pools = BTreeSet::new();
            for (n, pool) in cluster.pools.iter().enumerate() {
                let place = |rest: &str| place(&format!("pools[{n}].{rest}"));
                if let Err((at, problem)) = pool.check() {
                    return wrong(&place(&at), &problem);
                }
                if !pools.insert(&pool.name) {
                    return wrong(&place("name"), &format!("`{}` is named twice", pool.name));
                }
                check_policies(&pool.policy, &pool.rules, self.window_days(), &place(""))?;
            }
            if let Err((at, problem)) = cluster.schedule.read(Some(&self.server.schedule)) {
                return wrong(&place(&format!("schedule.{at}")), &problem);
            }
            for (pool, schedule) in &cluster.pool_schedules {
                let at = |field: &str| place(&format!("pool_schedules.{pool}.{field}"));
                if schedule.cron.is_none() {
                    return wrong(&at("cron"), "say when, such as `0 6 * * *`");
                }
                if let Err((field, problem)) = schedule.read(Some(&cluster.schedule)) {
                    return wrong(&at(field), &problem);
                }
            }
            check_policies(&cluster.policy, &cluster.rules, self.window_days(), &place(""))?;
            check_defaults(&cluster.pool_defaults, &place(""))?;
        }
        check_policies(&self.policy, &self.rules, self.window_days(), "")?;
        check_defaults(&self.pool_defaults, "")
    }
}

impl ServiceSettings {
    /// Where a cluster's repository is.
    fn check_repository(&self, repository: &RepositorySettings, place: &str) -> Result<(), (String, String)> {
        let wrong = |field: &str, problem: &str| Err((format!("{place}.{field}"), problem.to_owned()));
        let Some(forge) = repository.remote() else {
            return match (repository.path.as_os_str().is_empty(), &repository.name) {
                (_, Some(_)) => {
                    wrong("name", "is for a repository on a forge: say `forge:` too, and no `path`")
                }
                (true, None) => wrong("path", "say where the git repository is"),
                (false, None) if repository.checks => {
                    wrong("checks", "is for a repository on a forge: a folder shows no checks")
                }
                (false, None) => Ok(()),
            };
        };
        if !self.forges.iter().any(|known| known.name == forge) {
            let known: Vec<_> = self.forges.iter().map(|known| format!("`{}`", known.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return wrong(
                "forge",
                &format!("`{forge}` is not `local` and none of `forges`, which has {known}"),
            );
        }
        if !repository.path.as_os_str().is_empty() || repository.merge_requests.is_some() {
            return wrong(
                "path",
                "`path` and `merge_requests` are for `forge: local`; give `name`, `acme/infra`",
            );
        }
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        match repository.name.as_deref() {
            Some(name) if name.contains('/') && name.split('/').all(plain) => Ok(()),
            _ => wrong("name", "say which repository: `acme/infra`, `group/subgroup/project`"),
        }
    }
}

/// What one layer says about its workloads; `place` is the layer's own, with a dot at its end.
fn check_policies(
    policy: &PolicySettings,
    rules: &[PolicyRule],
    window_days: u32,
    place: &str,
) -> Result<(), (String, String)> {
    check_policy(policy, window_days, &format!("{place}policy"))?;
    let mut rules = rules.iter().enumerate();
    rules.try_for_each(|(n, rule)| check_rule(rule, window_days, &format!("{place}rules[{n}]")))
}

/// What one layer says about every pool.
fn check_defaults(defaults: &PoolSettings, place: &str) -> Result<(), (String, String)> {
    defaults
        .check_defaults()
        .map_err(|(setting, problem)| (format!("{place}pool_defaults.{setting}"), problem))
}

fn check_policy(policy: &PolicySettings, window_days: u32, place: &str) -> Result<(), (String, String)> {
    if let Some(days) = policy.min_history_days.filter(|days| *days > window_days) {
        let problem = format!(
            "{days} days are more than `window_days` ({window_days}) looks back, so that nothing could ever be proposed"
        );
        return Err((format!("{place}.min_history_days"), problem));
    }
    policy.check().map_err(|(setting, problem)| (format!("{place}.{setting}"), problem))
}

fn check_rule(rule: &PolicyRule, window_days: u32, place: &str) -> Result<(), (String, String)> {
    check_policy(&rule.set, window_days, &format!("{place}.set"))?;
    check_selectors(rule, place)?;
    if rule.set == PolicySettings::default() {
        let problem = "says nothing: give what holds for them, such as `set: {production: false}`";
        return Err((format!("{place}.set"), problem.to_owned()));
    }
    Ok(())
}

/// Whom a rule is for.
pub(in crate::settings) fn check_selectors(rule: &PolicyRule, place: &str) -> Result<(), (String, String)> {
    // The name ends up between backticks in texts for reviewers.
    if let Some(name) = &rule.name
        && (name.trim().is_empty() || name.contains('`') || name.chars().any(char::is_control))
    {
        return Err((format!("{place}.name"), "must be one line of text without backticks".to_owned()));
    }
    if let Some(text) = rule.workloads.iter().find(|text| !text.contains(['/', '*'])) {
        let problem = format!("`{text}` names no workload: write `namespace/name`, such as `*/{text}`");
        return Err((format!("{place}.workloads"), problem));
    }
    if rule.selects() {
        return Ok(());
    }
    let selectors = "`namespaces`, `namespace_labels`, `workloads`, `workload_labels` or `kinds`";
    Err((place.to_owned(), format!("says nothing about whom it is for: give {selectors}")))
}
