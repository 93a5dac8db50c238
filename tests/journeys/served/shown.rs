//! Pages, health and figures.

use super::{Service, on_both};
use crate::world::forge::Face;
use crate::world::golden;
use crate::world::pictures::{inside, seen};
use crate::world::prometheus::Prometheus;
use crate::world::served::{Heard, Sent};
use crate::world::wait::until;
use crate::world::{checkout, chromium};

#[test]
fn the_pages_say_where_every_pool_stands() {
    on_both(|service, _| {
        let page = until(30, "the pool on the page", || {
            let heard = service.server().get("/");
            assert_eq!(heard.status, 200, "{heard:?}");
            heard.body.contains("dc1/a100-40gb").then_some(heard)
        });
        let page = Heard { body: page.body.replace("&#x2f;", "/"), ..page };
        for words in
            ["Free 2 GPUs in dc1/a100-40gb by MIG", "/pools/dc1/a100-40gb", "Open", &service.fake.url()]
        {
            assert!(page.body.contains(words), "{words}: {}", page.body);
        }
        assert!(page.headers.contains("default-src 'none'; style-src 'self'"), "{}", page.headers);
        assert!(!page.body.contains("<script") && !page.body.contains("style=\""), "{}", page.body);
        let pool = service.server().get("/pools/dc1/a100-40gb");
        assert_eq!(pool.status, 200);
        for words in ["<details>", "mig-2g.10gb", "<table>", "GPUs freed"] {
            assert!(pool.body.contains(words), "{words}: {}", pool.body);
        }
        assert!(!pool.body.contains("slicewright:"), "no hidden block");
        assert_eq!(service.server().get("/pools/dc1/none").status, 404);
        let style = service.server().get("/style.css");
        assert!(style.headers.contains("content-type: text/css"), "{}", style.headers);
    });
}

#[test]
fn the_pages_show_the_cards_and_what_each_workload_used() {
    on_both(|service, _| {
        let page = until(30, "the pool on the page", || {
            let page = service.server().get("/").body;
            page.contains("Free 2 GPUs").then_some(page)
        });
        let pool = service.server().get("/pools/dc1/a100-40gb").body;
        let both = seen(&[inside(&page), inside(&pool)].concat());
        let titles: Vec<&str> = both.iter().map(|picture| picture["title"].as_str().unwrap()).collect();
        // Each for wide and for narrow windows.
        let cards = ["GPUs of dc1/a100-40gb, before and after"; 4];
        let names = ["classify-svc", "embed-svc", "ocr-svc"];
        let histories = names.map(|name| format!("Peak memory of search/{name} a day"));
        let histories: Vec<&str> = histories.iter().flat_map(|title| [title.as_str(); 2]).collect();
        assert_eq!(titles, [&cards[..], &histories].concat());
        for picture in &both[..4] {
            let nodes = picture["nodes"].as_array().unwrap();
            let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["dc1-gpu-07", "dc1-gpu-08", "dc1-gpu-09"]);
            let cut = nodes[0]["then"][0].as_array().unwrap();
            assert_eq!(cut.iter().filter(|piece| piece["class"] == "slice").count(), 3, "{cut:?}");
            assert_eq!(nodes[1]["then"][0][0]["title"], "freed");
        }
        for (name, pictures) in names.iter().zip(both[4..].chunks(2)) {
            let (_, peak, _) = golden::DC1_SERVICES.iter().find(|(known, ..)| known == name).unwrap();
            let peak = format!("{} peak on", slicewright_core::units::Mib(u64::from(*peak)));
            assert!(pictures.iter().all(|picture| picture["texts"].to_string().contains(&peak)), "{peak}");
        }
        for words in ["9,855 MiB usable", "pod <code>", "15 of 30 days", "Candidate"] {
            assert!(pool.contains(words), "{words}: {pool}");
        }
        assert!(!pool.contains("style=") && !page.contains("style="));
    });
}

#[test]
fn figures_say_how_the_server_is() {
    on_both(|service, _| {
        assert_eq!(service.server().get("/healthz").status, 200);
        assert_eq!(service.server().get("/readyz").status, 200);
        let figures = until(30, "the look to be counted", || {
            let figures = service.server().get("/metrics").body;
            let done = figures.contains("slicewright_jobs_total{kind=\"look\",outcome=\"done\"} 1");
            (done && figures.contains("slicewright_open_proposals 1")).then_some(figures)
        });
        for words in [
            "slicewright_jobs_total{kind=\"look\",outcome=\"done\"} 1",
            "slicewright_cards_freed 2",
            "slicewright_last_look_timestamp_seconds{cluster=\"dc1\"} 1",
            "slicewright_queue_jobs{state=\"dead\"} 0",
            "# EOF",
        ] {
            assert!(figures.contains(words), "{words}: {figures}");
        }
    });
}

#[test]
fn pages_open_to_whoever_has_the_word() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let more = "  pages: {user: ops, password_file: hook-secret}\n";
    let service = Service::new(Face::GitHub, &prometheus, more);
    let asked = |credentials: &str| service.server().ask("GET", "/", &[("authorization", credentials)], b"");
    let heard = service.server().get("/");
    assert_eq!(heard.status, 401);
    assert!(heard.headers.contains("www-authenticate: basic"), "{}", heard.headers);
    // ops:a-secret-of-the-hooks-for-tests
    assert_eq!(asked("Basic b3BzOmEtc2VjcmV0LW9mLXRoZS1ob29rcy1mb3ItdGVzdHM=").status, 200);
    for wrong in ["Basic b3BzOng=", "Basic !!", "Bearer x", ""] {
        assert_eq!(asked(wrong).status, 401, "{wrong}");
    }
    assert_eq!(service.server().get("/healthz").status, 200, "for whoever watches it");

    let more = "  pages: {forwarded_user_header: X-Forwarded-User}\n";
    let service = Service::new(Face::GitHub, &prometheus, more);
    assert_eq!(service.server().get("/").status, 401);
    assert_eq!(service.server().ask("GET", "/", &[("x-forwarded-user", "kim")], b"").status, 200);

    let service = Service::new(Face::GitHub, &prometheus, "  pages: {enabled: false}\n");
    assert_eq!(service.server().get("/").status, 404);
}

/// Rules and dashboard ask for figures that there are.
#[test]
fn what_is_shipped_for_prometheus_fits_the_figures() {
    let rules = checkout("config/alerts.yaml");
    let output =
        std::process::Command::new("promtool").args(["check", "rules"]).arg(&rules).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitHub, &prometheus, "").proposed();
    let sent = Sent::new(Face::GitHub, "ping", "k", &serde_json::json!({"zen": "x"}));
    assert_eq!(service.server().deliver(&sent).status, 200);
    let figures = until(30, "the look to be counted", || {
        let figures = service.server().get("/metrics").body;
        figures.contains("slicewright_jobs_total{kind=\"look\"").then_some(figures)
    });
    for file in ["config/alerts.yaml", "config/grafana.json"] {
        let text = std::fs::read_to_string(checkout(file)).unwrap();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = text.split(|c| !word(c)).filter(|part| part.starts_with("slicewright_"));
        let missing: Vec<&str> = named.filter(|name| !figures.contains(&format!("\n{name}"))).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}

/// Screenshots are kept in `target/pages/` for people to look at.
#[test]
fn the_pages_can_be_read_on_a_phone_and_in_the_dark() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitHub, &prometheus, "").proposed();
    until(30, "the pool on the page", || {
        service.server().get("/").body.contains("dc1/a100-40gb").then_some(())
    });
    let folder = checkout("target/pages");
    std::fs::create_dir_all(&folder).unwrap();
    let url = service.server().url();
    let wrong = chromium::look(&folder, &[&url, &format!("{url}/pools/dc1/a100-40gb")]);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
