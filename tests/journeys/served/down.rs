//! A forge that is down when the server starts.

use super::{Service, configure};
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::state::State;
use crate::world::forge::{Face, FakeForge, Reply};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};
use crate::world::wait::until;

/// More requests than a server sends in the seconds before it is said that the forge is back.
const MANY: usize = 500;

/// bors-ng/bors-ng#890: the start ended with an error when the forge answered 500.
#[test]
fn a_forge_that_is_down_at_the_start_is_waited_for() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let fake = FakeForge::start(face, State::new(BareRepo::from_folder(&example("golden-dc1"))));
        let down = || {
            let reply = Reply::json(500, &serde_json::json!({"message": "something went wrong"}));
            ["GET", "POST"].map(|method| (method, "/", Fault::Refuse(reply.clone())))
        };
        fake.set_faults(Some(Faults::planned((0..MANY).flat_map(|_| down()).collect())));
        let home = tempfile::tempdir().unwrap();
        configure(home.path(), &fake, &prometheus, "");
        let mut service = Service { fake, server: None, home };
        service.start();
        until(60, "a look that failed", || {
            (service.server().get("/metrics").body).contains("kind=\"look\",outcome=\"failed\"").then_some(())
        });
        assert_eq!(service.server().get("/healthz").status, 200);
        let (_, sent) = (String::new(), service.fake.state().pushed(face, "main"));
        assert_eq!(service.server().deliver(&sent).status, 202, "what it is told is written down");
        service.fake.set_faults(None);
        service.proposed();
    }
}
