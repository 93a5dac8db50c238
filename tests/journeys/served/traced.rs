//! Traces of what the server did, for whoever collects them.

use super::{Service, configure};
use crate::world::collector::{Collector, attribute};
use crate::world::forge::state::{KIM, State, TOKEN};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};
use crate::world::served::{SECRET, Served};

fn service(prometheus: &Prometheus, variables: &[(&str, &str)]) -> Service {
    let fake = FakeForge::start(Face::GitHub, State::new(BareRepo::from_folder(&example("golden-dc1"))));
    let home = tempfile::tempdir().unwrap();
    configure(home.path(), &fake, prometheus, "");
    let server = Served::start_in(home.path(), &["--at", super::AT], variables);
    Service { fake, server: Some(server), home }.proposed()
}

#[test]
fn deliveries_jobs_and_what_they_ask_are_traced() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let collector = Collector::start();
    // The log leaves out what the traces hold.
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("RUST_LOG", "warn".to_owned())];
    let mut service =
        service(&prometheus, &variables.each_ref().map(|(name, value)| (*name, value.as_str())));
    let (id, sent) = service.told(KIM, "slicewright why item=search/ocr-svc");
    service.deliver(&sent);
    service.answered(&id);
    assert_eq!(service.server.take().unwrap().stop(), Some(0), "it sends what is left");

    let taken = collector.taken();
    let senders: Vec<_> = taken.iter().filter_map(|(sender, _)| attribute(sender, "service.name")).collect();
    assert!(!senders.is_empty() && senders.iter().all(|name| *name == "slicewright"), "{senders:?}");
    let spans: Vec<_> = taken.iter().flat_map(|(_, spans)| spans).collect();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).copied().collect::<Vec<_>>();
    let is = |name: &str, key: &str, value: &str| {
        named(name).into_iter().find(|span| attribute(&span.attributes, key) == Some(value)).cloned()
    };
    assert!(is("request", "delivery", &format!("delivery-{id}")).is_some(), "{spans:?}");
    assert!(is("job", "kind", "hear").is_some());
    let obeyed = is("job", "kind", "obey").expect("the command is a job");
    let measured = named("measure").into_iter().find(|span| span.trace_id == obeyed.trace_id);
    assert_eq!(measured.expect("it measured for it").parent_span_id, obeyed.span_id);
    assert!(named("query").iter().any(|span| span.trace_id == obeyed.trace_id));
    assert!(is("ask", "forge", "github").is_some());
    let all = format!("{taken:?}");
    assert!(!all.contains(TOKEN) && !all.contains(SECRET), "no secret leaves with them");
}

#[test]
fn nothing_is_traced_unasked_and_no_collector_holds_the_server_up() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let collector = Collector::start();
    for (variables, what) in [
        (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_SDK_DISABLED", "true".into())], "off"),
        (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9".into())], "nobody there"),
    ] {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut service = service(&prometheus, &variables);
        let id = service.says(KIM, "slicewright help");
        service.answered(&id);
        assert_eq!(service.server.take().unwrap().stop(), Some(0), "{what}");
    }
    assert!(collector.taken().is_empty());
}

#[test]
fn what_is_no_address_of_a_collector_is_told_at_the_start() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .args(["catalog", "list"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("OTEL_"), "{said}");
}
