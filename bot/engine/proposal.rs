//! A plan as a proposal: the change of the files, and the text about it.

use std::collections::BTreeMap;

use slicewright_core::catalog::Catalog;
use slicewright_core::fit::FitReport;
use slicewright_core::plan::Plan;
use slicewright_core::review::codeowners::{self, CodeOwners};
use slicewright_core::review::lifecycle::Wanted;
use slicewright_core::review::shares::Shares;
use slicewright_core::usage::ComputeSource;

use super::VERSION;
use super::analyse::Analysis;
use crate::infra::ChangeSet;
use crate::render::{self, Dialect};

/// A proposal as text.
pub struct Proposal {
    /// Title of the merge request.
    pub title: String,
    /// Its text, without the hidden block.
    pub body: String,
    /// The same for a page that draws the cards and shows the evidence of each workload itself.
    pub(super) for_page: String,
    /// It waits for people: changes by hand are needed, or the evidence is thin.
    pub draft: bool,
    /// The same in a few lines for a terminal.
    pub(super) terminal: String,
    /// Message of the commit.
    pub(super) message: String,
    /// The files that differ.
    pub changes: ChangeSet,
    /// The same in words, with diffs.
    pub summary: render::ChangeSummary,
}

/// The change and the text about it.
pub(super) fn write(
    analysis: &Analysis,
    catalog: &Catalog,
    plan: &Plan,
    branch: &str,
    base_branch: &str,
    dialect: Dialect,
    handle: Option<&str>,
) -> Result<Proposal, render::RenderError> {
    let changes = analysis.index.edit(&analysis.snapshot, &analysis.scope, plan);
    let summary = summary(analysis, &changes, dialect);
    let queries = queries(analysis, plan);
    let view = render::View {
        plan,
        model: catalog.find(&plan.model),
        profiles: &analysis.measured.profiles,
        changes: &summary,
        quality: &analysis.measured.data_quality,
        queries: &queries,
        as_of: analysis.at,
        version: VERSION,
        branch,
        base_branch,
        dialect,
        handle,
    };
    let rendered = render::body(&view)?;
    let (terminal, message) = (render::terminal(&view), render::commit_message(&view));
    Ok(Proposal {
        title: rendered.title,
        body: rendered.body,
        for_page: rendered.for_page,
        draft: rendered.draft,
        terminal,
        message,
        changes,
        summary,
    })
}

/// The change set in the words of `render`, with a diff a file.
fn summary(analysis: &Analysis, changes: &ChangeSet, dialect: Dialect) -> render::ChangeSummary {
    render::ChangeSummary {
        files: changes
            .files
            .iter()
            .map(|(path, after)| render::FileChange {
                path: path.clone(),
                diff: Some(render::unified_diff(
                    path,
                    analysis.snapshot.files.get(path).map(Vec::as_slice),
                    Some(after),
                )),
            })
            .collect(),
        by_hand: changes
            .manual
            .iter()
            .map(|manual| render::ByHand {
                what: manual.what.clone(),
                why: manual.why.clone(),
                text: manual.text.clone(),
            })
            .collect(),
        side_effects: changes.side_effects.clone(),
        owners: owners(analysis, changes, dialect),
    }
}

/// Whom the repository's CODEOWNERS asks about the files that differ.
fn owners(analysis: &Analysis, changes: &ChangeSet, dialect: Dialect) -> Vec<String> {
    let files = &analysis.snapshot.files;
    let places = match dialect {
        Dialect::GitHub => codeowners::GITHUB_PLACES,
        Dialect::GitLab => codeowners::GITLAB_PLACES,
        Dialect::Local | Dialect::Terminal => codeowners::ALL_PLACES,
    };
    let text = places.iter().find_map(|path| std::str::from_utf8(files.get(*path)?).ok());
    let paths = changes.files.keys().map(String::as_str);
    text.map(|text| CodeOwners::parse(text).of(paths)).unwrap_or_default()
}

/// The questions with which a reader can check the figures: the peak's pod on the peak's day, and the worst day of
/// compute, in the dialect of the cluster's exporter.
fn queries(analysis: &Analysis, plan: &Plan) -> Vec<render::Query> {
    let exported = analysis.measured.data_quality.pod_label.starts_with("exported_");
    let prefix = if exported { "exported_" } else { "" };
    let matchers: String =
        analysis.matchers.iter().map(|(key, value)| format!(",{key}={}", quoted(value))).collect();
    let mut queries = Vec::new();
    for item in &plan.items {
        let id = &item.fit.workload;
        let Some(profile) = analysis.measured.profiles.get(id) else { continue };
        let namespace = format!("{prefix}namespace={}", quoted(&id.namespace));
        if let Some(peak) = &profile.peak {
            queries.push(render::Query {
                what: format!("peak memory of {id}, MiB"),
                promql: format!(
                    "max(max_over_time(DCGM_FI_DEV_FB_USED{{{namespace},{prefix}pod={}{matchers}}}[1d] @ {}))",
                    quoted(&peak.pod),
                    end_of(peak.day)
                ),
            });
        }
        if let Some(compute) = &profile.compute {
            queries.push(render::Query {
                what: format!("99th percentile of compute of {id} on its worst day"),
                promql: format!(
                    "max(quantile_over_time(0.99, {}{{{namespace},{prefix}pod=~{}{matchers}}}[1d] @ {}))",
                    compute_metric(compute.source),
                    quoted(&format!("{}-.*", regex_escaped(&id.name))),
                    end_of(compute.day)
                ),
            });
        }
    }
    queries
}

/// The last second of a UTC day, as Prometheus' `@` takes it.
fn end_of(day: jiff::civil::Date) -> i64 {
    let start = jiff::tz::Offset::UTC.to_timestamp(day.at(0, 0, 0, 0));
    start.map_or(0, |start| start.as_second() + 86_399)
}

fn compute_metric(source: ComputeSource) -> &'static str {
    match source {
        ComputeSource::SmActive => "DCGM_FI_PROF_SM_ACTIVE",
        ComputeSource::GrEngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        ComputeSource::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
    }
}

/// A PromQL string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Kubernetes names hold no other character with a meaning in a regular expression.
fn regex_escaped(text: &str) -> String {
    text.replace('.', "\\.")
}

/// The proposal as the decision about it takes it. `shares` is what stands on the branch.
pub(super) fn wanted(proposal: &Proposal, plan: &Plan, shares: &Shares) -> Wanted {
    Wanted {
        title: proposal.title.clone(),
        body: proposal.body.clone(),
        fingerprint: plan.fingerprint.clone(),
        files: files(&proposal.changes),
        method: plan.method.name().to_owned(),
        cards_freed: plan.saving.cards_freed,
        shares: plan.items.iter().map(|item| (item.fit.workload.to_string(), item.share.clone())).collect(),
        outgrown: outgrown(plan, shares),
    }
}

/// Workloads that no longer fit what an earlier plan gave them.
fn outgrown(plan: &Plan, shares: &Shares) -> Vec<String> {
    let fits = plan.items.iter().map(|item| &item.fit).chain(plan.kept.iter().map(|kept| &kept.fit));
    let too_small = |fit: &&FitReport| {
        let workload = fit.workload.to_string();
        shares
            .may_be(&workload)
            .any(|share| fit.considered.iter().any(|candidate| candidate.name == share && !candidate.fits))
    };
    fits.filter(too_small).map(|fit| fit.workload.to_string()).collect()
}

fn files(changes: &ChangeSet) -> BTreeMap<String, Option<Vec<u8>>> {
    changes.files.iter().map(|(path, content)| (path.clone(), Some(content.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_queries_are_quoted() {
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
    }
}
