//! What a user can configure and get wrong.

use super::bot::{AT, Bot, MODEL, failed, ok};
use crate::world::golden;
use crate::world::prometheus::{PASSWORD, Prometheus, Security, USER};
use crate::world::repo::{BareRepo, example};
use crate::world::series::{END, Series};

fn bot(prometheus: &Prometheus) -> Bot {
    Bot::new(prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", "")
}

#[test]
fn a_server_with_a_password_and_a_certificate_of_its_own_is_read() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]).restart(Security { basic_auth: true, tls: true });
    let bot = bot(&prometheus);
    std::fs::write(bot.file("password"), format!("{PASSWORD}\n")).unwrap();
    let ca = prometheus.ca_file().unwrap();
    bot.configure(
        &format!(
            "url: {}\nusername: {USER}\npassword_file: password\nca_file: {}\nheaders: {{X-Scope-OrgID: \
             platform}}\ntimeout_seconds: 30",
            prometheus.url(),
            ca.display()
        ),
        "",
        "",
    );
    let shown = bot.propose(&["--dry-run"]);
    assert!(shown.contains("would open a merge request"), "{shown}");

    std::fs::write(bot.file("password"), "wrong").unwrap();
    let said = failed(&bot.run(&["propose", "--at", AT]), 1);
    assert!(said.contains("refuses the credentials") && said.contains("way out"), "{said}");
    assert!(!said.contains("wrong"), "a secret was printed: {said}");

    bot.configure(&format!("url: {}\nusername: {USER}\npassword_file: password", prometheus.url()), "", "");
    let said = failed(&bot.run(&["propose", "--at", AT]), 1);
    assert!(said.contains("ca_file"), "{said}");
}

#[test]
fn a_configuration_with_a_wrong_field_is_refused_with_the_place() {
    let prometheus = Prometheus::start();
    let bot = bot(&prometheus);
    bot.configure(&format!("url: {}", prometheus.url()), "", "widow_days: 3");
    let said = failed(&bot.run(&["propose"]), 1);
    assert!(said.contains("widow_days") && said.contains("slicewright.yaml"), "{said}");
}

#[test]
fn a_missing_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = failed(&super::bot::run(folder.path(), &["propose", "--config", "nowhere.yaml"]), 1);
    assert!(said.contains("cannot read the configuration `nowhere.yaml`"), "{said}");
}

#[test]
fn wrong_usage_ends_with_two() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in
        [&["propose", "--nonsense"][..], &["frobnicate"], &["explain"], &["propose", "--output", "xml"]]
    {
        failed(&super::bot::run(folder.path(), wrong), 2);
    }
}

#[test]
fn findings_can_fail_a_pipeline() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let output = bot.run(&["propose", "--at", AT, "--dry-run", "--fail-on", "findings"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn an_unknown_cluster_pool_or_workload_is_answered_with_what_there_is() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let said = failed(&bot.run(&["propose", "--cluster", "dc2"]), 1);
    assert!(said.contains("`dc1`"), "{said}");
    let said = failed(&bot.run(&["propose", "--at", AT, "--pool", "nothing"]), 1);
    assert!(said.contains("no pool `nothing`; it has `"), "{said}");
    let said = failed(&bot.run(&["explain", "search/ocr-scv", "--at", AT]), 1);
    assert!(said.contains("near it: `search/ocr-svc`"), "{said}");
    let said = failed(&bot.run(&["explain", "ocr-svc", "--at", AT]), 1);
    assert!(said.contains("namespace/name"), "{said}");
}

#[test]
fn a_rule_decides_and_explain_says_which() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let rules = "rules:\n  - {workloads: [search/ocr-*], set: {headroom_percent: 60}}\n";
    bot.configure(&format!("url: {}", prometheus.url()), "", rules);
    let shown = ok(&bot.run(&["explain", "search/ocr-svc", "--at", AT]));
    // 7,987 MiB and 60 %: 12,780 MiB do not fit 9,855.
    for said in ["12,780 MiB", "3g.20gb", "headroom_percent", "service, rule 1"] {
        assert!(shown.contains(said), "`{said}` is missing in:\n{shown}");
    }
}

#[test]
fn a_label_of_the_manifest_is_more_specific_than_the_namespace_and_both_have_a_line() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let rules = "rules:
  - {name: ocr, workload_labels: {app.kubernetes.io/name: 'ocr-*'}, set: {headroom_percent: 60}}
  - {namespaces: [search], set: {headroom_percent: 30, min_runs: 3}}
pool_defaults: {spare_cards: 1}
";
    bot.configure(&format!("url: {}", prometheus.url()), "", rules);
    let shown = ok(&bot.run(&["explain", "search/ocr-svc", "--at", AT]));
    let config = std::fs::read_to_string(bot.config()).unwrap();
    let line = |text: &str| config.lines().position(|line| line.contains(text)).unwrap() + 1;
    for said in [
        format!("headroom_percent: 60 (service, rule 1 `ocr`; slicewright.yaml:{})", line("name: ocr")),
        format!("min_runs: 3 (service, rule 2; slicewright.yaml:{})", line("namespaces: [search]")),
        "compute_fill: 75 % (default)".to_owned(),
        "spare_cards: 1 (service)".to_owned(),
        "goal: bill (default)".to_owned(),
    ] {
        assert!(shown.contains(&said), "`{said}` is missing in:\n{shown}");
    }
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_the_place_and_the_way_out() {
    let prometheus = Prometheus::start();
    let bot = bot(&prometheus);
    for (top, said) in [
        // What cannot be read has a line and a column.
        (
            "freeze: [{from: 2026-02-30, to: 2026-03-01}]",
            &["is no day of the calendar: write it like 2026-12-20", "2026-02-30"][..],
        ),
        ("freeze: [{weekly: [fri, sta]}]", &["`sta` is none of", "`sat`"]),
        (
            "freeze: [{weekly: [sun], time_zone: Europe/Berlim}]",
            &["`Europe/Berlim` is no time zone", "like Europe/Berlin"],
        ),
        ("spread: nod", &["`nod` is none of", "`node`"]),
        ("goals: bill", &["goals", "goal"]),
        // What can be read and not be meant has a place.
        (
            "freeze: [{from: 2026-12-20, to: 2026-12-19}]",
            &["`pool_defaults.freeze[0].to` (line 10): 2026-12-19 is before 2026-12-20"],
        ),
        ("freeze: [{from: 2026-12-20}]", &["`pool_defaults.freeze[0].to` (line 10): give the last day too"]),
        ("name: a", &["`pool_defaults.name` (line 10): only a pool has it"]),
    ] {
        bot.configure(&format!("url: {}", prometheus.url()), "", &format!("pool_defaults:\n  {top}"));
        let shown = failed(&bot.run(&["propose"]), 1);
        for said in said {
            assert!(shown.contains(said), "`{said}` is missing in:\n{shown}");
        }
        if !said[0].starts_with("`pool_defaults") {
            let config = std::fs::read_to_string(bot.config()).unwrap();
            let line = config.lines().position(|line| line.contains(top)).unwrap() + 1;
            assert!(shown.contains(&format!("line {line}, column ")), "line {line} is missing in:\n{shown}");
        }
    }
    for (rules, said) in [
        (
            "{name: 'a`b', kinds: [Job]}",
            "`rules[0].name` (line 9): must be one line of text without backticks",
        ),
        (
            "{workloads: [ranker]}",
            "`rules[0].workloads` (line 9): `ranker` names no workload: write `namespace/name`",
        ),
        (
            "{name: nobody, set: {max_surge: 1}}",
            "`rules[0]` (line 9): says nothing about whom it is for: give `namespaces`",
        ),
        ("{kinds: [Job], set: {max_surge: 2000}}", "`rules[0].set.max_surge` (line 9): 2,000 extra pods"),
        (
            "{kinds: [Job], set: {min_history_days: 31}}",
            "`rules[0].set.min_history_days` (line 9): 31 days are more than `window_days` (30) looks back",
        ),
    ] {
        bot.configure(&format!("url: {}", prometheus.url()), "", &format!("rules: [{rules}]"));
        let shown = failed(&bot.run(&["propose"]), 1);
        assert!(shown.contains(said), "`{said}` is missing in:\n{shown}");
    }
}

#[test]
fn doctor_names_frozen_pools_and_frozen_nodes_that_there_are_not() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let more = "    pool_defaults:
      frozen_nodes: [dc1-gpu-7]
      freeze: [{from: 2026-01-14, to: 2026-01-20, reason: stocktaking}]
";
    bot.configure(&format!("url: {}", prometheus.url()), more, "");
    let shown = ok(&bot.run(&["doctor", "--at", AT]));
    for said in [
        "`dc1-gpu-7` in `frozen_nodes` of cluster dc1 matches no node of it",
        "is frozen until 2026-01-21 (stocktaking; cluster dc1)",
    ] {
        assert!(shown.contains(said), "`{said}` is missing in:\n{shown}");
    }
}

#[test]
fn doctor_says_what_is_missing_and_how_to_fix_it() {
    let mut cluster = golden::dc1();
    cluster.dialect.sm_active = false;
    cluster.dialect.node_labels = false;
    let prometheus = Prometheus::holding(&[&cluster]);
    let bot = bot(&prometheus);
    let shown = ok(&bot.run(&["doctor", "--at", AT]));
    for said in ["DCGM_FI_PROF_SM_ACTIVE", "--metric-labels-allowlist"] {
        assert!(shown.contains(said), "`{said}` is missing in:\n{shown}");
    }
}

#[test]
fn a_model_of_ones_own_is_added_and_a_broken_one_refused() {
    let prometheus = Prometheus::start();
    let bot = bot(&prometheus);
    std::fs::write(bot.file("mine.yaml"), MODEL).unwrap();
    bot.configure(&format!("url: {}", prometheus.url()), "", "catalog: [mine.yaml]");
    let config = bot.config();
    let config = config.to_str().unwrap();
    let shown = ok(&bot.run(&["catalog", "show", "NVIDIA Mine", "--config", config]));
    assert!(shown.contains("my-card") && shown.contains("10,000 MiB"), "{shown}");
    std::fs::write(bot.file("mine.yaml"), MODEL.replace("generation", "generatoin")).unwrap();
    let said = failed(&bot.run(&["catalog", "list", "--config", config]), 1);
    assert!(said.contains("mine.yaml") && said.contains("generatoin"), "{said}");
}

#[test]
fn opencost_prices_the_nodes_when_nothing_is_configured() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let rows = ["dc1-gpu-07", "dc1-gpu-08", "dc1-gpu-09"].map(|node| Series {
        name: "node_total_hourly_cost",
        labels: vec![
            ("cluster".to_owned(), "dc1".to_owned()),
            ("instance".to_owned(), node.to_owned()),
            ("node".to_owned(), node.to_owned()),
        ],
        first: END - 600,
        values: vec![2.5, 2.5],
    });
    prometheus.push(&rows);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let text = bot.request();
    // Two nodes, 730 hours.
    assert!(text.contains("$3,650 a month") && text.contains("OpenCost"), "{text}");
}

#[test]
fn without_a_price_the_text_says_how_to_set_one() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let text = bot.request();
    assert!(text.contains("no price is known: set `node_per_hour`"), "{text}");
}
