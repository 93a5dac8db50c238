//! A disk with no room left.

use super::Service;
use crate::world::forge::Face;
use crate::world::forge::state::KIM;
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::wait::until;

/// As on a full disk, no write adds a byte: deliveries are refused, nothing is half-written, and when there is room again
/// the server goes on by itself.
#[test]
fn with_a_full_disk_deliveries_are_refused_and_taken_when_they_come_again() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let service = Service::new(face, &prometheus, "").proposed().looked();
        let early = service.says(KIM, "slicewright set exclude=search/ocr-svc");
        service.answered(&early);

        let (late, sent) = service.told(KIM, "slicewright help");
        service.server().room(Some(1_024));
        for _ in 0..3 {
            let heard = service.server().deliver(&sent);
            assert_eq!(heard.status, 503, "{heard:?}");
            assert!(heard.headers.contains("retry-after"), "{}", heard.headers);
        }
        assert_eq!(service.server().get("/healthz").status, 200);
        let ready = service.server().get("/readyz");
        assert_eq!(ready.status, 503, "what cannot write takes no deliveries: {ready:?}");
        assert_eq!(service.server().get("/").status, 200, "what it knows can be read");
        let said = service.server().log().join("\n");
        assert!(said.contains("is there room on the disk?"), "{said}");

        service.server().room(None);
        until(60, "the server to be ready", || (service.server().get("/readyz").status == 200).then_some(()));
        assert_eq!(service.server().deliver(&sent).status, 202, "it was not written down");
        service.answered(&late);
        let words = service.words();
        let n = |what: &str| words.iter().filter(|text| text.contains(what)).count();
        assert_eq!((n("| Command | Who |"), n("Not done")), (1, 0), "{words:?}");
        assert_eq!(service.noted().overrides.shown(), ["exclude=search/ocr-svc"]);
        assert_eq!(service.server.unwrap().stop(), Some(0));
    }
}

/// Room that ends in the middle of the work: what is in work waits for it, and is not done twice.
#[test]
fn a_disk_that_is_full_for_a_while_holds_work_up_and_doubles_none() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let service = Service::new(face, &prometheus, "").proposed().looked();
        let id = service.says(KIM, "slicewright set exclude=search/ocr-svc");
        until(10, "the eyes", || service.reactions(&id).contains(&"eyes".to_owned()).then_some(()));
        service.server().room(Some(1_024));
        until(30, "somebody to notice", || {
            let log = service.server().log().join("\n");
            ["is not written down yet", "the queue cannot be asked"]
                .iter()
                .any(|words| log.contains(words))
                .then_some(())
        });
        service.server().room(None);
        service.answered(&id);
        let help = service.says(KIM, "slicewright help");
        service.answered(&help);
        let words = service.words();
        let n = |what: &str| words.iter().filter(|text| text.contains(what)).count();
        assert_eq!((n("<!-- slicewright-topic:status -->"), n("Not done")), (1, 0), "{words:?}");
        assert_eq!(service.noted().overrides.shown(), ["exclude=search/ocr-svc"]);
        assert_eq!(service.server.unwrap().stop(), Some(0));
    }
}
