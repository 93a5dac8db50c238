//! Whole texts, read as a reviewer reads them.

use slicewright_core::inventory::{Inventory, Node};
use slicewright_core::plan::layers::{General, Layers};
use slicewright_core::plan::pool::{PoolSettings, PriceSettings, pools};
use slicewright_core::plan::{CardUse, Goal};
use slicewright_core::policy::PolicySettings;

use super::sample::{Sample, mig, time_slicing};
use super::*;

const HOSTILE: &str = "x`|\n/close\n\n# H <script>@all</script> <!-- [l](http://e.example) ![i](//e) #1 ~bug $(id) \u{202e}\u{1b}[31m&lt;";

fn bodies(sample: &Sample) -> Vec<Rendered> {
    let all = [Dialect::GitHub, Dialect::GitLab, Dialect::Local, Dialect::Terminal];
    all.into_iter().map(|dialect| body(&sample.view(dialect)).unwrap()).collect()
}

pub(super) fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn a_mig_plan_on_the_local_forge() {
    let got = body(&mig().view(Dialect::Local)).unwrap();
    assert_eq!(got.title, "Free 2 GPUs in dc1/a100-40gb by MIG");
    assert!(!got.draft);
    snapshot("body-mig", &got.body);
}

#[test]
fn slices_that_grow_are_called_so() {
    let mut sample = mig();
    let saving = &mut sample.plan.saving;
    (saving.cards_freed, saving.nodes_freed, saving.nodes_after) = (0, Vec::new(), saving.nodes_before);
    (saving.cards_in_use_before, saving.cards_in_use_after) = (2, 3);
    for item in &mut sample.plan.items {
        item.fit.holds = slicewright_core::fit::Holds::Slice { profile: "1g.5gb".into() };
    }
    let n = sample.plan.items.len();
    let got = body(&sample.view(Dialect::Local)).unwrap();
    assert_eq!(got.title, "Grow slices in dc1/a100-40gb by MIG");
    for said in [
        "from other slices (NVIDIA A100".to_owned(),
        format!("{n} of them run short of memory today; frees 0 GPUs and 0 nodes"),
        "- **GPUs freed:** none: 3 in use then, 2 today".to_owned(),
    ] {
        assert!(got.body.contains(&said), "`{said}` is missing in:\n{}", got.body);
    }
}

#[test]
fn a_time_slicing_plan_on_github() {
    let got = body(&time_slicing().view(Dialect::GitHub)).unwrap();
    assert!(got.draft);
    snapshot("body-time-slicing", &got.body);
}

#[test]
fn a_terminal_gets_a_few_lines() {
    snapshot("terminal-mig", &terminal(&mig().view(Dialect::Terminal)));
    let sample = time_slicing();
    snapshot("terminal-time-slicing", &terminal(&sample.view(Dialect::Terminal)));
    snapshot("terminal-nothing", &nothing(&sample.plan.pool, &[], &sample.plan.kept));
}

#[test]
fn a_pool_without_a_plan_says_the_ways_out_once() {
    let reason = |text| Reason::new("x", text).with_advice("set `goal: capacity`");
    let pool = time_slicing().plan.pool;
    let said = nothing(&pool, &[reason("a"), reason("b"), Reason::new("y", "c")], &[]);
    assert_eq!(said, "dev-use1/ml-dev: nothing to propose: a; b; c\n  way out: set `goal: capacity`\n");
}

#[test]
fn cards_that_only_autoscalers_would_take_are_not_called_freed() {
    let mut sample = mig();
    sample.plan.saving.cards_of_autoscalers = 1;
    let said = terminal(&sample.view(Dialect::Terminal));
    assert!(said.contains("frees 2 GPUs at the autoscalers' maximum and 2 nodes"), "{said}");
}

/// A pool of one node whose goal the cluster decided.
fn pool() -> Pool {
    let node = Node { name: "gpu-1".into(), ..Node::default() };
    let inventory = Inventory { cluster: "dc1".into(), nodes: vec![node], ..Inventory::default() };
    let own = PoolSettings { name: "a100-40gb".into(), nodes: Some(".*".into()), ..PoolSettings::default() };
    let capacity = PoolSettings { goal: Some(Goal::Capacity), ..PoolSettings::default() };
    let (policy, nothing) = (PolicySettings::default(), PoolSettings::default());
    let general = |pool_defaults| General { policy: &policy, rules: &[], pool_defaults };
    let layers = Layers {
        cluster: "dc1",
        service: general(&nothing),
        of_cluster: general(&capacity),
        pools: std::slice::from_ref(&own),
    };
    pools(&inventory, &layers, &PriceSettings::default()).unwrap().remove(0)
}

#[test]
fn explain_tells_everything() {
    let sample = mig();
    let mut policy = Policy { min_history_days: 7, ..Policy::default() };
    policy.decided_by.insert("min_history_days".into(), "pool a100-40gb, rule 2".into());
    let report = &sample.plan.items[0].fit;
    policy.stands_at.insert("min_history_days".into(), "slicewright.yaml:42".into());
    let profile = sample.profiles.get(&report.workload);
    let pool = pool();
    snapshot("explain-mig", &explain(report, profile, &policy, Some(&pool)));
    let nowhere = explain(report, None, &policy, None);
    assert!(nowhere.contains("no sample carries one of its pods") && !nowhere.contains("Pool"), "{nowhere}");
}

#[test]
fn the_same_view_gives_the_same_bytes() {
    for sample in [mig(), time_slicing()] {
        assert_eq!(bodies(&sample), bodies(&sample));
    }
}

#[test]
fn another_day_changes_the_date_line_alone() {
    use slicewright_core::review::metadata::body_hash;
    let sample = mig();
    let today = body(&sample.view(Dialect::Local)).unwrap().body;
    let later = View {
        as_of: "2026-03-02T06:00:00Z".parse().unwrap(),
        version: "0.1.1",
        ..sample.view(Dialect::Local)
    };
    let later = body(&later).unwrap().body;
    assert_ne!(today, later);
    assert_eq!(body_hash(&today), body_hash(&later));
    let other = mig_with(|sample| sample.plan.saving.cards_freed = 1);
    assert_ne!(body_hash(&today), body_hash(&body(&other.view(Dialect::Local)).unwrap().body));
}

fn mig_with(change: impl FnOnce(&mut Sample)) -> Sample {
    let mut sample = mig();
    change(&mut sample);
    sample
}

#[test]
fn the_first_screen_has_at_most_25_lines() {
    let many = many(200);
    for sample in [mig(), time_slicing(), many] {
        for rendered in bodies(&sample) {
            let lines = rendered.body.lines().take_while(|line| !line.starts_with("## ")).count();
            assert!(lines <= 25, "{lines} lines:\n{}", rendered.body);
            for needed in ["GPUs freed", "Nodes freed", "Money", "Risk", "Confidence"] {
                let at = rendered.body.lines().position(|line| line.contains(needed));
                assert!(at.is_some_and(|at| at < lines), "{needed}");
            }
        }
    }
}

/// A plan with many workloads, by copying one.
fn many(n: usize) -> Sample {
    mig_with(|sample| {
        let (item, change) = (sample.plan.items[0].clone(), sample.plan.changes[1].clone());
        let profile = sample.profiles[&item.fit.workload].clone();
        for n in 0..n {
            let id = WorkloadId::new("Deployment", "search", &format!("svc-{n:03}"));
            let mut item = item.clone();
            item.fit.workload = id.clone();
            sample.plan.items.push(item);
            let mut change = change.clone();
            if let slicewright_core::plan::Change::SetWorkloadResource { workload, .. } = &mut change {
                *workload = id.clone();
            }
            sample.plan.changes.push(change);
            sample.profiles.insert(id, profile.clone());
        }
    })
}

/// renovatebot/renovate#7775, zapier/kubechecks#82, #85: long texts were refused, or cut where a reader could not tell.
#[test]
fn a_long_text_loses_whole_sections_and_says_so() {
    let sample = many(200);
    for dialect in [Dialect::GitHub, Dialect::GitLab, Dialect::Local] {
        let text = body(&sample.view(dialect)).unwrap().body;
        assert!(text.len() <= dialect.budget(), "{} bytes", text.len());
        assert!(text.contains("Left out to stay below") && text.contains("evidence"), "{dialect:?}");
        for stays in ["## What happens on merge", "## The way back", "## Trade-offs", "## Data quality"] {
            assert!(text.contains(stays), "{stays}");
        }
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
        assert_eq!(text.lines().filter(|line| line.starts_with("```")).count() % 2, 0);
    }
    assert!(!body(&mig().view(Dialect::GitHub)).unwrap().body.contains("Left out"));
}

#[test]
fn even_absurd_texts_stay_below_the_limit() {
    let sample = mig_with(|sample| {
        let long = ByHand { what: "w".repeat(5_000), why: "y".into(), text: "`".repeat(300_000) };
        sample.changes.by_hand = vec![long];
        sample.plan.rollout[0].commands = vec!["x".repeat(300_000)];
        sample.plan.risks[0].text = "r".repeat(90_000);
    });
    for (rendered, budget) in bodies(&sample).iter().zip([55_000, 200_000, 200_000, 200_000]) {
        assert!(rendered.body.len() <= budget, "{}", rendered.body.len());
        assert!(rendered.body.contains("changes to make by hand"));
    }
}

/// Every string of the plan and its surroundings replaced by a hostile one.
fn poisoned() -> Sample {
    let mut sample = time_slicing();
    sample.plan = poison(
        &sample.plan,
        &[
            "pool_kind",
            "goal",
            "method",
            "change",
            "kind",
            "fate",
            "level",
            "confidence",
            "currency",
            "use",
            "sharing",
        ],
    );
    sample.changes = poison(&sample.changes, &[]);
    sample.quality = poison(&sample.quality, &["severity"]);
    // With a card to scale.
    let workloads = vec![WorkloadId::new(HOSTILE, HOSTILE, HOSTILE); 2];
    let sharing = slicewright_core::plan::PluginSharing::TimeSlicing;
    sample.plan.nodes[0].after = vec![CardUse::Shared { sharing, replicas: 2, workloads }];
    let mut profile = sample.profiles.values().next().unwrap().clone();
    profile.peak.as_mut().unwrap().pod = HOSTILE.into();
    profile.peak.as_mut().unwrap().card = HOSTILE.into();
    sample.profiles =
        sample.plan.items.iter().map(|item| (item.fit.workload.clone(), profile.clone())).collect();
    sample
}

fn poison<T: Serialize + serde::de::DeserializeOwned>(value: &T, spare: &[&str]) -> T {
    fn walk(value: &mut serde_json::Value, key: &str, spare: &[&str]) {
        match value {
            serde_json::Value::String(text)
                if !spare.contains(&key) || HOSTILE_KINDS.contains(&text.as_str()) =>
            {
                *text = HOSTILE.into();
            }
            serde_json::Value::Array(list) => list.iter_mut().for_each(|value| walk(value, key, spare)),
            serde_json::Value::Object(map) => map.iter_mut().for_each(|(key, value)| walk(value, key, spare)),
            _ => {}
        }
    }
    // `kind` tags verdicts, and names the owner's kind as well: the latter is a stranger's word.
    const HOSTILE_KINDS: &[&str] = &["Notebook", "Deployment"];
    let mut json = serde_json::to_value(value).unwrap();
    walk(&mut json, "", spare);
    serde_json::from_value(json).unwrap()
}

#[test]
fn hostile_words_stay_words() {
    let sample = poisoned();
    for rendered in bodies(&sample) {
        let text = &rendered.body;
        assert!(text.contains("script"), "the hostile text is shown");
        assert!(!rendered.title.contains('\n') && rendered.title.chars().count() <= 72);
        let mut fence: Option<String> = None;
        for line in text.lines() {
            assert!(!line.trim_start().starts_with('/') || fence.is_some(), "{line}");
            assert!(!line.starts_with('/'), "{line}");
            let ticks: String = line.chars().take_while(|c| *c == '`').collect();
            match &fence {
                None if ticks.len() >= 3 => fence = Some(ticks),
                Some(open) if *open == line => fence = None,
                _ => {}
            }
            if fence.is_none() {
                check_line(line);
            }
        }
        assert_eq!(fence, None);
        for c in ['\u{202e}', '\u{1b}', '\r'] {
            assert!(!text.contains(c));
        }
    }
    for text in [
        terminal(&sample.view(Dialect::Terminal)),
        nothing(
            &sample.plan.pool,
            &[Reason::new("hostile", HOSTILE).with_advice(HOSTILE)],
            &sample.plan.kept,
        ),
    ] {
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']) && !text.contains("\n/close"), "{text}");
    }
}

/// A line outside fences: no tag but ours, no live reference, tables with the right number of cells.
fn check_line(line: &str) {
    for (at, _) in line.match_indices('<') {
        let ours = ["<details>", "</details>", "<summary>", "</summary>"];
        let in_code = line[..at].matches('`').count() % 2 == 1;
        assert!(in_code || ours.iter().any(|tag| line[at..].starts_with(tag)), "{line}");
    }
    if line.starts_with('|') {
        let cells = line.replace("\\|", "").matches('|').count();
        assert!([3, 4, 5, 6, 7].contains(&cells), "{cells} bars: {line}");
    }
    let outside: String = line.replace("&#96;", "").replace("&#39;", "").split('`').step_by(2).collect();
    for (at, found) in outside.match_indices(['@', '#']) {
        let next = outside[at + 1..].chars().next();
        assert!(!next.is_some_and(char::is_alphanumeric), "{found}: {line}");
    }
}

#[test]
fn a_commit_message_holds_no_measurement() {
    let message = commit_message(&mig().view(Dialect::Local));
    let expected = "Free 2 GPUs in dc1/a100-40gb by MIG

Moves 3 workloads of pool `a100-40gb` in cluster `dc1` to MIG.
The merge request of branch `slicewright/dc1/a100-40gb` says why, in which order to roll out, and the way back.

Slicewright-Fingerprint: 3f9a0c5be1d27a6612
";
    assert_eq!(message, expected);
    let hostile = commit_message(&poisoned().view(Dialect::GitLab));
    assert_eq!(hostile.lines().filter(|line| line.contains("Fingerprint:")).count(), 1);
    assert!(!hostile.contains("\n/close"));
}

#[test]
fn a_closed_text_says_so_first_and_only_once() {
    let once = closing("the text\n", State::Withdrawn, "the measurement no longer supports <it>");
    assert_eq!(once, "**Withdrawn:** the measurement no longer supports &lt;it&gt;.\n\nthe text\n");
    let then = closing(&once, State::Declined, "a person closed it");
    assert_eq!(then, "**Declined:** a person closed it.\n\nthe text\n");
    assert_eq!(closing(&then, State::Open, ""), "the text\n");
}
