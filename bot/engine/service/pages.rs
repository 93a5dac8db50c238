//! The pages, from what the server knows.

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use slicewright_core::review::board::Section;

use super::Service;
use super::shown::{PoolShown, Shown};
use crate::engine::VERSION;
use crate::engine::pictures::Pictures;
use crate::render::{self, Clothes, HtmlPage, Room};
use crate::store::runs::RunNote;

/// A cluster that was not looked at for so long is a problem: twice the default schedule and a bit.
const STALE: SignedDuration = SignedDuration::from_hours(13);

/// Pools whose cards are drawn on the page of all pools; the others show theirs on their own pages.
const MOST_DRAWN: usize = 12;

/// Nodes of each that are drawn there.
const FEW_NODES: usize = 3;

#[derive(Serialize)]
struct Row<'a> {
    cluster: &'a str,
    pool: &'a str,
    title: Option<&'a str>,
    action: &'a str,
    reason: &'a str,
    cards_freed: u32,
    page: String,
    as_of: String,
    url: Option<&'a str>,
    /// Its cards.
    packing: Option<Value>,
    is_open: bool,
}

impl Service {
    /// The page with all pools, as HTML.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn overview_page(&self, now: Timestamp) -> anyhow::Result<String> {
        let shown = self.shown().await.context("cannot read what is known")?;
        let clusters: Vec<String> =
            self.engine().settings().clusters.iter().map(|cluster| cluster.name.clone()).collect();
        let mut n_drawn = 0;
        let mut parts = Vec::new();
        for section in Section::ALL {
            let mut rows: Vec<Row<'_>> = Vec::new();
            for pool in shown.pools.iter().filter(|pool| pool.section == section.title()) {
                let mut row = row(pool);
                if pool.title.is_some() && n_drawn < MOST_DRAWN {
                    let pictures = self.pictures(&pool.cluster, &pool.pool).await;
                    let pictures = pictures.context("cannot read what is known")?;
                    let id = format!("packing-{n_drawn}");
                    row.packing = pictures
                        .map(|pictures| picture(&id, |clothes| pictures.packing.svg(clothes, FEW_NODES)));
                    n_drawn += 1;
                }
                rows.push(row);
            }
            if !rows.is_empty() {
                parts.push(json!({"title": section.title(), "rows": rows}));
            }
        }
        let open = shown.pools.iter().filter(|pool| pool.is_open);
        let view = json!({
            "title": "Slicewright: GPU pools",
            "version": VERSION,
            "now": minute(now),
            "n_pools": shown.pools.len(),
            "n_open": open.clone().count(),
            "freed_open": open.map(|pool| pool.cards_freed).sum::<u32>(),
            "problems": problems(&shown, &clusters, now),
            "parts": parts,
            "runs": shown.runs.iter().map(run).collect::<Vec<_>>(),
            "given_up": shown.given_up.iter().map(|job| json!({
                "kind": job.kind, "id": job.id, "lane": job.lane, "died": minute(job.died), "error": job.error,
            })).collect::<Vec<_>>(),
        });
        Ok(render::html(HtmlPage::Overview, &view)?)
    }

    /// The page of one pool, as HTML. `None`: there is no such pool.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn pool_page(
        &self,
        cluster: &str,
        pool: &str,
        now: Timestamp,
    ) -> anyhow::Result<Option<String>> {
        let Some(shown) = self.pool(cluster, pool).await.context("cannot read what is known")? else {
            return Ok(None);
        };
        let pictures = self.pictures(cluster, pool).await.context("cannot read what is known")?;
        let view = json!({
            "title": shown.title.clone().unwrap_or_else(|| format!("{cluster}/{pool}")),
            "version": VERSION,
            "now": minute(now),
            "cluster": shown.cluster,
            "pool": shown.pool,
            "section": shown.section,
            "cards_freed": shown.cards_freed,
            "as_of": minute(shown.as_of),
            "action": shown.action,
            "reason": shown.reason,
            "url": shown.url.as_deref().and_then(link),
            "body": shown.body,
            "pictures": pictures.as_ref().map(drawn),
            "summary": shown.summary,
        });
        Ok(Some(render::html(HtmlPage::Pool, &view)?))
    }
}

/// A page that says why there is nothing to see.
///
/// # Errors
/// When its template is broken.
pub fn problem_page(title: &str, what: &str, now: Timestamp) -> anyhow::Result<String> {
    let view = json!({"title": title, "what": what, "version": VERSION, "now": minute(now)});
    Ok(render::html(HtmlPage::Problem, &view)?)
}

/// The style sheet of the pages.
pub fn style() -> &'static str {
    render::STYLE
}

/// A picture for both kinds of windows, as SVG, which the template takes as it is.
fn picture(id: &str, draw: impl Fn(Clothes<'_>) -> String) -> Value {
    let narrow = format!("{id}-narrow");
    json!({
        "wide": draw(Clothes::Page { id, room: Room::Wide }),
        "narrow": draw(Clothes::Page { id: &narrow, room: Room::Narrow }),
    })
}

/// All pictures of a pool.
fn drawn(pictures: &Pictures) -> Value {
    let workload = |(n, workload): (usize, &render::WorkloadShown)| {
        let id = format!("history-{n}");
        json!({
            "summary": workload.summary,
            "evidence": workload.evidence,
            "history": workload.history.as_ref().map(|history| picture(&id, |clothes| history.svg(clothes))),
        })
    };
    json!({
        "packing": picture("packing", |clothes| pictures.packing.svg(clothes, usize::MAX)),
        "workloads": pictures.workloads.iter().enumerate().map(workload).collect::<Vec<_>>(),
        "n_more": pictures.n_more,
    })
}

fn row(pool: &PoolShown) -> Row<'_> {
    let part = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        name.bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect::<String>()
    };
    Row {
        cluster: &pool.cluster,
        pool: &pool.pool,
        title: pool.title.as_deref(),
        action: &pool.action,
        reason: &pool.reason,
        cards_freed: pool.cards_freed,
        url: pool.url.as_deref().and_then(link),
        page: format!("/pools/{}/{}", part(&pool.cluster), part(&pool.pool)),
        as_of: minute(pool.as_of),
        packing: None,
        is_open: pool.is_open,
    }
}

fn run(run: &RunNote) -> Value {
    let took = run.finished.map(|finished| finished.duration_since(run.started));
    json!({
        "cluster": run.cluster,
        "started": minute(run.started),
        "took": took.map_or_else(|| "–".to_owned(), |took| format!("{:.1} s", took.as_secs_f64())),
        "outcome": run.outcome,
        "problem": run.problem,
    })
}

/// What somebody should look at, in sentences.
fn problems(shown: &Shown, clusters: &[String], now: Timestamp) -> Vec<String> {
    let mut problems = Vec::new();
    for name in clusters {
        let mut runs = shown.runs.iter().filter(|run| run.cluster == *name && run.finished.is_some());
        match runs.next() {
            None => {}
            Some(RunNote { problem: Some(problem), .. }) => {
                problems.push(format!("The last look at cluster {name} failed: {problem}"));
            }
            Some(last) if last.finished.is_some_and(|at| now.duration_since(at) > STALE) => {
                problems.push(format!(
                    "Cluster {name} was looked at last {}: what is shown of it is old",
                    minute(last.started)
                ));
            }
            Some(_) => {}
        }
    }
    problems
}

/// An address that may be a link: forges' pages, never a script.
fn link(url: &str) -> Option<&str> {
    (url.starts_with("https://") || url.starts_with("http://")).then_some(url)
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
