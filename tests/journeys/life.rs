//! The life of a proposal on a plain git repository.

use super::bot::Bot;
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, MAIN, example};
use crate::world::series::{Cluster, END, Memory, Series};

const BRANCH: &str = "slicewright/dc1/a100-40gb";
const POOLS: &str = "    pools:\n      - {name: a100-40gb, nodes: 'dc1-gpu-.*'}\n";

fn bot(prometheus: &Prometheus) -> Bot {
    Bot::new(prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", POOLS)
}

/// The golden cluster with other peaks.
fn with_peaks(peaks: [u64; 3]) -> Cluster {
    let mut cluster = golden::dc1();
    for (workload, peak) in cluster.workloads.iter_mut().zip(peaks) {
        workload.load.memory = Memory::Peak { base_mib: peak * 7 / 8, peak_mib: peak, peak_day: 5 };
    }
    cluster
}

fn repoint(bot: &Bot, prometheus: &Prometheus) {
    bot.configure(&format!("url: {}", prometheus.url()), POOLS, "");
}

#[test]
fn a_second_run_writes_nothing() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let before = bot.left();
    let shown = bot.propose(&[]);
    assert_eq!(before, bot.left());
    assert!(shown.contains("nothing differs"), "{shown}");
}

#[test]
fn a_dry_run_writes_nothing_at_all() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let before = bot.left();
    let shown = bot.propose(&["--dry-run"]);
    assert_eq!(before, bot.left());
    assert!(shown.contains("would open a merge request"), "{shown}");
}

#[test]
fn noise_in_the_metrics_leaves_the_branch_as_it_was_reviewed() {
    let bot = {
        let prometheus = Prometheus::holding(&[&golden::dc1()]);
        let bot = bot(&prometheus);
        bot.propose(&[]);
        bot
    };
    let before = bot.left();
    let [a, b, c] = golden::DC1_SERVICES.map(|(_, peak, _)| u64::from(peak));
    let noisy = Prometheus::holding(&[&with_peaks([a + 3, b - 2, c - 1])]);
    repoint(&bot, &noisy);
    bot.propose(&[]);
    assert_eq!(before.branches, bot.left().branches);
}

#[test]
fn in_a_freeze_nothing_is_opened_updated_or_closed() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let frozen = |prometheus: &Prometheus| {
        let window = "pool_defaults: {freeze: [{from: 2026-01-10, to: 2026-01-15, reason: holidays}]}";
        bot.configure(&format!("url: {}", prometheus.url()), POOLS, window);
        let before = bot.left();
        let shown = bot.propose(&[]);
        assert_eq!(before, bot.left());
        let said = "left as it is: no merge request (held: frozen until 2026-01-16 (holidays; service))";
        (shown.contains(said), shown)
    };
    let (said, shown) = frozen(&prometheus);
    assert!(said && shown.contains("2g.10gb"), "the plan is shown all the same:\n{shown}");
    repoint(&bot, &prometheus);
    bot.propose(&[]);
    for other in [with_peaks([7_578, 7_066, 15_000]), with_peaks([30_000, 30_000, 30_000])] {
        let (said, shown) = frozen(&Prometheus::holding(&[&other]));
        assert!(!said && shown.contains("held: frozen until 2026-01-16"), "{shown}");
    }
}

#[test]
fn new_proposals_wait_for_their_hours_and_for_room() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let limited = |limits: &str| {
        bot.configure(&format!("url: {}", prometheus.url()), POOLS, &format!("proposals: {limits}"));
        bot.propose(&[])
    };
    let before = bot.left();
    let shown = limited("{hours: [{days: [sat, sun]}]}");
    assert!(shown.contains("waits: new proposals are made in the configured hours only"), "{shown}");
    assert_eq!(before, bot.left());
    // Two clusters with one repository: what the first opens is counted for the second.
    let url = format!("url: {}", prometheus.url());
    let second = format!(
        "      folders: [clusters/dc1, apps]\n{POOLS}  - name: twin\n    prometheus: {{{url}}}\n    repository:\n      path: \
         {}\n      merge_requests: {}\n      folders: [clusters/dc1, apps]\n{POOLS}",
        bot.repo.path().display(),
        bot.requests().display()
    );
    bot.configure(&url, &second, "proposals: {max_open: 1}");
    let shown = bot.propose(&[]);
    assert!(
        shown.contains("opened")
            && shown.contains("waits: there is room for 1 in this repository, and it has 1 open proposal"),
        "{shown}"
    );
    let shown = bot.propose(&["--cluster", "twin", "--pool", "a100-40gb"]);
    assert!(shown.contains("opened"), "asked for by name: {shown}");
    // And the other way round: what the second has is counted before the first opens anything.
    let first = BRANCH;
    bot.repo.delete_branch(first);
    std::fs::remove_dir_all(bot.requests().join(first.replace('/', "__"))).unwrap();
    for arguments in [&[][..], &["--cluster", "dc1"]] {
        let shown = bot.propose(arguments);
        assert!(shown.contains("waits: there is room for 1"), "{shown}");
        assert_eq!(bot.repo.head(first), None);
    }
}

#[test]
fn other_data_updates_the_same_branch_and_file() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let first = bot.left();
    let grown = Prometheus::holding(&[&with_peaks([7_578, 7_066, 15_000])]);
    repoint(&bot, &grown);
    let shown = bot.propose(&[]);
    let second = bot.left();
    let said = "what the plan gave so far is too small by now for search/ocr-svc";
    assert!(shown.contains(said), "{shown}");
    assert_eq!(first.branches.len(), second.branches.len());
    assert_ne!(first.branches, second.branches);
    assert_eq!(first.requests.len(), second.requests.len());
    assert_eq!(first.requests[0].0, second.requests[0].0);
    assert_eq!(bot.repo.log(&format!("{MAIN}..{BRANCH}")).len(), 1);
    assert!(bot.request().contains("3g.20gb"), "{}", bot.request());
}

#[test]
fn a_finding_that_is_gone_withdraws_the_proposal() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let full = Prometheus::holding(&[&with_peaks([38_000, 37_000, 36_000])]);
    repoint(&bot, &full);
    let shown = bot.propose(&[]);
    assert!(shown.contains("withdrawn"), "{shown}");
    assert_eq!(bot.repo.head(BRANCH), None);
    assert!(bot.request().contains("State: withdrawn"), "{}", bot.request());
    // And it stays so without another word.
    let before = bot.left();
    bot.propose(&[]);
    assert_eq!(before, bot.left());
    // The finding is back: so is the proposal.
    repoint(&bot, &prometheus);
    bot.propose(&[]);
    assert!(bot.repo.head(BRANCH).is_some());
    assert!(bot.request().contains("State: open"), "{}", bot.request());
}

#[test]
fn a_commit_by_a_person_stops_the_bot() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let path = "apps/search/embed-svc.yaml";
    let text = bot.repo.read(BRANCH, path).unwrap().replace("replicas: 1", "replicas: 2");
    bot.repo.commit_as_human(BRANCH, &[(path, &text)], "Run two of them");
    let branches = bot.left().branches;
    let grown = Prometheus::holding(&[&with_peaks([7_578, 7_066, 15_000])]);
    repoint(&bot, &grown);
    let shown = bot.propose(&[]);
    assert!(shown.contains("not the bot's"), "{shown}");
    assert_eq!(branches, bot.left().branches);
    // It says so once, with what a person can do.
    let said = bot.request();
    assert!(
        said.contains("---- comments/edited.md") && said.contains("taking them off the branch"),
        "{said}"
    );
    let before = bot.left();
    bot.propose(&[]);
    // Nor does a finding that is gone delete a person's work.
    let full = Prometheus::holding(&[&with_peaks([38_000, 37_000, 36_000])]);
    repoint(&bot, &full);
    bot.propose(&[]);
    assert_eq!(before, bot.left());
    // Given back, the bot goes on and takes its comment away.
    let own = bot.repo.log(&format!("{MAIN}..{BRANCH}"))[1].sha.clone();
    bot.repo.git(&["update-ref", &format!("refs/heads/{BRANCH}"), &own]);
    repoint(&bot, &grown);
    let shown = bot.propose(&[]);
    assert!(shown.contains("updated"), "{shown}");
    assert!(!bot.request().contains("comments/edited.md"), "{}", bot.request());
}

#[test]
fn a_decline_is_remembered() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    bot.repo.delete_branch(BRANCH);
    bot.propose(&[]);
    assert!(bot.request().contains("State: declined"), "{}", bot.request());
    let before = bot.left();
    let shown = bot.propose(&[]);
    assert_eq!(before, bot.left());
    assert!(shown.contains("declined"), "{shown}");
}

#[test]
fn a_merge_is_noted_and_nothing_is_proposed_again() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    bot.repo.merge(BRANCH);
    bot.propose(&[]);
    assert!(bot.request().contains("State: merged"), "{}", bot.request());
    let before = bot.left();
    bot.propose(&[]);
    assert_eq!(before, bot.left());
}

#[test]
fn a_repository_is_asked_first_and_nothing_else_happens_meanwhile() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let asking = POOLS.replacen("    pools:", "      onboarding: true\n    pools:", 1);
    bot.configure(&format!("url: {}", prometheus.url()), &asking, "");
    let before = bot.left();
    assert!(
        bot.propose(&["--dry-run"]).contains("would open a merge request"),
        "a dry run shows what would come"
    );
    assert_eq!(before, bot.left());
    let shown = bot.propose(&[]);
    assert!(
        shown.contains("nothing is proposed before its people said so") && !shown.contains("2g.10gb"),
        "{shown}"
    );
    assert!(bot.request().contains("# Set up Slicewright"), "{}", bot.request());
    let asked = "slicewright/onboarding";
    assert_eq!(bot.repo.changed_lines(MAIN, asked).iter().filter(|line| line.starts_with('-')).count(), 0);
    let before = bot.left();
    bot.propose(&[]);
    assert_eq!(before, bot.left());
    // To edit the file on the branch is what it is there for.
    bot.repo.commit_as_human(asked, &[(".slicewright.yaml", "labels: [gpu]\n")], "Our labels");
    let before = bot.left();
    let shown = bot.propose(&[]);
    assert!(shown.contains("its people work on it"), "{shown}");
    assert_eq!(before, bot.left());
    bot.repo.merge(asked);
    let shown = bot.propose(&[]);
    assert!(shown.contains("opened"), "{shown}");
    assert!(bot.repo.head(BRANCH).is_some());
}

#[test]
fn a_repository_that_says_no_is_left_alone() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let asking = POOLS.replacen("    pools:", "      onboarding: true\n    pools:", 1);
    bot.configure(&format!("url: {}", prometheus.url()), &asking, "");
    bot.propose(&[]);
    bot.repo.delete_branch("slicewright/onboarding");
    bot.propose(&[]);
    assert!(bot.request().contains("State: declined"), "{}", bot.request());
    let before = bot.left();
    let later = super::bot::ok(&bot.run(&["propose", "--at", "2027-01-15T00:00:00Z"]));
    assert!(later.contains("its people closed it"), "{later}");
    assert_eq!(before, bot.left());
    // They change their minds.
    let text = bot.requests().join("slicewright__onboarding/body.md");
    let renamed = std::fs::read_to_string(&text).unwrap().replacen("# Set up", "# Do set up", 1);
    std::fs::write(&text, renamed).unwrap();
    bot.propose(&[]);
    assert!(bot.request().contains("State: open"), "{}", bot.request());
    bot.repo.commit_as_human(MAIN, &[(".slicewright.yaml", "# Welcome after all.\n")], "Say yes");
    assert!(bot.propose(&[]).contains("opened"));
}

#[test]
fn the_repository_itself_asks_for_less_and_never_for_more() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    let says = |text: &str| {
        bot.repo.commit_as_human(MAIN, &[(".slicewright.yaml", text)], "Say what we want");
        bot.propose(&[])
    };
    let before = bot.left().requests;
    let shown = says("paused: true\n");
    assert!(shown.contains("held: `paused` in `.slicewright.yaml`") && shown.contains("2g.10gb"), "{shown}");
    assert_eq!(before, bot.left().requests);
    let shown = says("rules:\n  - {workloads: [search/ocr-svc], set: {exclude: true}}\nlabels: [gpu]\n");
    assert!(shown.contains("opened"), "{shown}");
    assert!(bot.request().contains("Move 2 workloads"), "{}", bot.request());
    let labels =
        std::fs::read_to_string(bot.requests().join("slicewright__dc1__a100-40gb/state.json")).unwrap();
    assert!(labels.contains("\"gpu\""), "{labels}");
    // A file that cannot be used stops everything, and its people hear of it once, where they look.
    let branches =
        |bot: &Bot| bot.left().branches.into_iter().filter(|(name, _)| name != MAIN).collect::<Vec<_>>();
    let before = branches(&bot);
    says("rules:\n  - {namespaces: [serch], set: {exclude: true}}\n");
    let doctor = || {
        let output = bot.run(&["doctor", "--at", super::bot::AT]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (_, said) = doctor();
    assert!(said.contains(".slicewright.yaml, rule 1 speaks of no GPU workload of the cluster"), "{said}");
    let before_fault = branches(&bot);
    let shown = says("policy:\n  production: false\n");
    let (code, said) = doctor();
    assert!(code == Some(1) && said.contains("blocker [repository-configuration]"), "{said}");
    let problem = "`.slicewright.yaml` cannot be used: `policy.production` (line 2): a repository can only make the \
                   policy stricter";
    assert!(shown.contains(problem), "{shown}");
    assert_eq!(before_fault, branches(&bot));
    assert_ne!(before, before_fault, "without the rule the plan was another one");
    let text = bot.request();
    assert!(text.contains("---- comments/configuration.md") && text.contains("(line 2)"), "{text}");
    let before = bot.left();
    bot.propose(&[]);
    assert_eq!(before, bot.left());
    let shown = says("policy: {headroom_percent: 0, min_history_days: 0}\n");
    assert!(shown.contains("nothing differs"), "headroom is not less than the service's: {shown}");
    assert!(bot.request().contains("Move 3 workloads"), "{}", bot.request());
    let shown = says("rules:\n  - {workloads: [search/ocr-svc], set: {exclude: true}}\n");
    assert!(shown.contains("updated"), "{shown}");
    assert!(!bot.request().contains("comments/configuration.md"), "{}", bot.request());
}

#[test]
fn a_prometheus_that_is_gone_closes_nothing() {
    let bot = {
        let prometheus = Prometheus::holding(&[&golden::dc1()]);
        let bot = bot(&prometheus);
        bot.propose(&[]);
        bot
    };
    let before = bot.left();
    let output = bot.run(&["propose", "--at", super::bot::AT]);
    let said = super::bot::failed(&output, 1);
    assert_eq!(before, bot.left());
    assert!(said.contains("cannot be reached") && said.contains("way out: "), "{said}");
}

#[test]
fn an_empty_prometheus_closes_nothing() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let before = bot.left();
    let empty = Prometheus::start();
    repoint(&bot, &empty);
    let output = bot.run(&["propose", "--at", super::bot::AT]);
    let said = super::bot::failed(&output, 1);
    assert_eq!(before, bot.left());
    assert!(said.contains("DCGM_FI_DEV_FB_USED"), "{said}");
}

#[test]
fn all_replicas_of_a_service_are_not_taken_down_unless_the_pool_allows_it() {
    let mut cluster = golden::dc1();
    // Two replicas on one node of two cards: cutting it takes both down.
    let node = &mut cluster.nodes[0];
    node.n_cards = 2;
    let name = node.name.clone();
    cluster.nodes.truncate(1);
    cluster.workloads.truncate(1);
    cluster.workloads[0].pods = vec![(name.clone(), 0..1), (name, 1..2)];
    let prometheus = Prometheus::holding(&[&cluster]);
    let bot = bot(&prometheus);
    let pools = POOLS.replace("'}", "', goal: capacity}");
    bot.configure(&format!("url: {}", prometheus.url()), &pools, "");
    let shown = bot.propose(&[]);
    assert!(
        shown.contains(
            "dc1-gpu-07 would have to be drained, and search/embed-svc would have no pod meanwhile"
        ),
        "{shown}"
    );
    assert!(bot.left().requests.is_empty());
    let pools = pools.replace("capacity", "capacity, spread: none, waves: allow-downtime");
    bot.configure(&format!("url: {}", prometheus.url()), &pools, "");
    bot.propose(&[]);
    let text = bot.request();
    assert!(text.contains("**high** `outage`"), "{text}");
}

#[test]
fn a_node_whose_cards_fall_silent_holds_the_proposal() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let bot = bot(&prometheus);
    bot.propose(&[]);
    let before = bot.left();
    // An hour later the exporters are gone; kube-state-metrics still says what the nodes offer.
    let rows = ["dc1-gpu-07", "dc1-gpu-08", "dc1-gpu-09"].map(|node| Series {
        name: "kube_node_status_allocatable",
        labels: [
            ("cluster", "dc1"),
            ("instance", "kube-state-metrics:8080"),
            ("job", "kube-state-metrics"),
            ("node", node),
            ("resource", "nvidia_com_gpu"),
            ("unit", "integer"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec(),
        first: END + 3_300,
        values: vec![1.0, 1.0],
    });
    prometheus.push(&rows);
    let shown = super::bot::ok(&bot.run(&["propose", "--at", "2026-01-15T01:00:00Z"]));
    assert_eq!(before, bot.left());
    assert!(shown.contains("held: ") || shown.contains("no node with a GPU"), "{shown}");
}
