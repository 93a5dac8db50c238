//! Recordings and the demo: the same without a network.

use super::bot::{AT, Bot, MODEL, failed, ok, run};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};

#[test]
fn a_replay_of_a_record_is_the_same_to_the_byte() {
    let bot;
    let live;
    {
        let prometheus = Prometheus::holding(&[&golden::dc1()]);
        bot = Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", "");
        std::fs::write(bot.file("mine.yaml"), MODEL).unwrap();
        bot.configure(&format!("url: {}", prometheus.url()), "", "catalog: [mine.yaml]");
        // What belongs to no pool is told by both.
        bot.repo.git(&["branch", "slicewright/gone/l4", "main"]);
        ok(&bot.run(&["record", "--at", AT, "--to", "run.slicewright"]));
        live = ["text", "json", "markdown"].map(|output| bot.propose(&["--dry-run", "--output", output]));
    }
    // The server is gone, the repository has moved on, and so has the operator's own catalog.
    std::fs::remove_file(bot.file("mine.yaml")).unwrap();
    bot.repo.commit_as_human("main", &[("apps/search/ocr-svc.yaml", "gone: true\n")], "Take it away");
    let replayed = ["text", "json", "markdown"]
        .map(|output| ok(&bot.run(&["replay", "run.slicewright", "--output", output])));
    assert_eq!(live, replayed);
    assert!(live[0].contains("branch `slicewright/gone/l4` belongs to no pool"), "{}", live[0]);
    let explained = ok(&bot.run(&["explain", "search/ocr-svc", "--recording", "run.slicewright"]));
    assert!(explained.contains("2g.10gb"), "{explained}");
    ok(&bot.run(&["doctor", "--recording", "run.slicewright"]));
}

#[test]
fn a_record_of_one_cluster_is_enough_for_every_command() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", "");
    let url = format!("url: {}", prometheus.url());
    let other = "  - {name: other, prometheus: {url: 'http://127.0.0.1:9'}, repository: {path: /nowhere}}\n";
    bot.configure(&url, other, "");
    ok(&bot.run(&["record", "--at", AT, "--cluster", "dc1", "--to", "run.slicewright"]));
    let shown = ok(&bot.run(&["replay", "run.slicewright"]));
    assert!(shown.contains("cluster dc1") && !shown.contains("cluster other"), "{shown}");
    ok(&bot.run(&["explain", "search/ocr-svc", "--recording", "run.slicewright"]));
    ok(&bot.run(&["doctor", "--recording", "run.slicewright"]));
}

#[test]
fn a_record_holds_no_address_and_no_secret() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", "");
    let url = prometheus.url();
    bot.configure(&format!("url: {url}\nheaders: {{X-Token: s3cr3t}}"), "", "");
    ok(&bot.run(&["record", "--at", AT, "--to", "run.slicewright"]));
    let bytes = std::fs::read(bot.file("run.slicewright")).unwrap();
    let recording = slicewright::engine::recording::Recording::from_bytes(&bytes).unwrap();
    let text = format!("{recording:?}");
    assert!(!text.contains("s3cr3t") && !text.contains(&url), "{}", recording.config);
}

#[test]
fn a_damaged_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), b"no recording").unwrap();
    let said = failed(&run(folder.path(), &["replay", "x"]), 1);
    assert!(said.contains("cannot use the recording `x`"), "{said}");
}

#[test]
fn the_json_follows_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let schema: serde_json::Value = serde_json::from_str(&ok(&run(folder.path(), &["schema"]))).unwrap();
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", "");
    let document: serde_json::Value =
        serde_json::from_str(&bot.propose(&["--dry-run", "--output", "json"])).unwrap();
    jsonschema::validate(&schema, &document).unwrap();
    assert_eq!(document["schema"], "slicewright.report/v1");
    let alternatives = document.pointer("/clusters/0/pools/0/proposal/alternatives").unwrap();
    assert!(
        alternatives.as_array().unwrap().iter().any(|way| way["name"] == "time-slicing"),
        "{alternatives}"
    );
    let otherwise = "fits `1g.10gb` of an A100 40GB if the 99th percentile of SM_ACTIVE were at most 9.7 %";
    assert!(document.to_string().contains(otherwise), "{document:#}");
}

#[test]
fn the_demo_shows_the_whole_way_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ok(&run(folder.path(), &["demo"]));
    assert!(shown.contains("What to look at:"), "{shown}");
    let requests = folder.path().join("slicewright-demo/infra.git.proposals");
    assert!(requests.read_dir().unwrap().count() > 0);
    let pictures = crate::world::repo::files_below(&folder.path().join("slicewright-demo/pictures"));
    let named = |picture: &String| picture.ends_with("packing.svg") && shown.contains(picture);
    assert!(pictures.iter().any(named), "{pictures:?}: {shown}");
    let again = ok(&run(folder.path(), &["demo"]));
    assert_eq!(shown, again);
}

#[test]
fn the_demo_never_touches_a_folder_of_somebody_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    std::fs::write(folder.path().join("mine/thesis.txt"), "years of work").unwrap();
    let said = failed(&run(folder.path(), &["demo", "--folder", "mine"]), 1);
    assert!(said.contains("--folder"), "{said}");
    assert!(folder.path().join("mine/thesis.txt").exists());
}
