//! The golden cases: real metrics in, the merge request and the repository out.

use super::bot::Bot;
use crate::world::golden::{self, Notebooks};
use crate::world::kubernetes;
use crate::world::nvidia::{self, Meant};
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, MAIN, example};
use crate::world::series::{Cluster, HostLabel, PodLabels};

const DC1_POOLS: &str = "    pools:\n      - {name: a100-40gb, nodes: 'dc1-gpu-.*', node_per_hour: 3.67}\n";
const DC1_BRANCH: &str = "slicewright/dc1/a100-40gb";

fn dc1(cluster: &Cluster) -> Bot {
    let prometheus = Prometheus::holding(&[cluster]);
    let bot = Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dc1")), "dc1", DC1_POOLS);
    bot.propose(&[]);
    bot
}

#[test]
fn three_services_share_one_card_by_mig() {
    let bot = dc1(&golden::dc1());
    let mut lines = bot.changed_lines(DC1_BRANCH);
    lines.sort();
    let trimmed: Vec<String> =
        lines.iter().map(|line| format!("{}{}", &line[..1], line[1..].trim_start())).collect();
    let count = |prefix: &str, text: &str| {
        trimmed.iter().filter(|line| line.starts_with(prefix) && line.contains(text)).count()
    };
    // Requests and limits of three services, and one label.
    assert_eq!(count("+", "nvidia.com/mig-2g.10gb"), 6, "{lines:#?}");
    assert_eq!(count("-", "nvidia.com/gpu"), 6, "{lines:#?}");
    assert_eq!(count("+", "nvidia.com/mig.config: all-2g.10gb   # whole cards"), 1, "{lines:#?}");
    assert_eq!(lines.len(), 14, "{lines:#?}");
    // The operator's own config: no config map.
    let files = bot.repo.git(&["diff", "--name-only", MAIN, DC1_BRANCH]);
    assert!(!files.contains("mig-parted"), "{files}");

    // The label stands in the document of the first node.
    let nodes = bot.repo.read(DC1_BRANCH, "clusters/dc1/nodes/a100-40gb.yaml").unwrap();
    let first = nodes.split("---\n").find(|document| document.contains("name: dc1-gpu-07")).unwrap();
    assert!(first.contains("nvidia.com/mig.config: all-2g.10gb   # whole cards"), "{nodes}");

    let text = bot.request();
    for line in [
        "- **GPUs freed:** 2 of 3 that pods hold today; 1 in use then, 3 in the pool",
        "- **Nodes freed:** 2 of 3: `dc1-gpu-08`, `dc1-gpu-09`",
        "- **Money:** $5,358 a month less. Price: $3.67 per node and hour, configured for pool `a100-40gb`. For the \
         bill to fall: a person has to take the 2 drained nodes out of service.",
        "- the slices need 6 memory slices, and a card has 8: 1 card; these slices fit on no fewer",
        "With MIG, memory, compute and faults stay isolated by hardware.",
        "kubectl drain dc1-gpu-07 --ignore-daemonsets --delete-emptydir-data",
        "kubectl wait node/dc1-gpu-07 \
         --for=jsonpath='{.status.allocatable.nvidia\\.com/mig-2g\\.10gb}'=3 --timeout=30m &&",
    ] {
        assert!(text.lines().any(|known| known == line), "`{line}` is missing in:\n{text}");
    }
    for said in [
        "down from here until the slices exist (some minutes; the wait for them gives up after 30m): search/embed-svc-",
        "; downtime of embed-svc",
        "peak 7,987 MiB, needs 9,585 MiB, gets 9,855 MiB",
    ] {
        assert!(text.contains(said), "`{said}` is missing in:\n{text}");
    }
}

#[test]
fn other_labels_of_the_exporter_lead_to_the_same_commit() {
    let plain = dc1(&golden::dc1());
    let mut cluster = golden::dc1();
    cluster.dialect.host_label = HostLabel::Lower;
    cluster.dialect.pod_labels = PodLabels::Exported;
    cluster.dialect.cluster_label = false;
    let exported = dc1(&cluster);
    assert!(plain.repo.head(DC1_BRANCH).is_some());
    assert_eq!(plain.left().branches, exported.left().branches);
}

#[test]
fn the_changed_manifests_are_valid() {
    let bot = dc1(&golden::dc1());
    let folder = tempfile::tempdir().unwrap();
    for path in bot.repo.files(DC1_BRANCH) {
        let target = folder.path().join(&path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, bot.repo.read(DC1_BRANCH, &path).unwrap()).unwrap();
    }
    kubernetes::validate(&kubernetes::manifests_below(folder.path())).unwrap();
    let verdict = nvidia::look(folder.path(), &Meant::default());
    assert_eq!(verdict.complaints, Vec::<String>::new());
    assert!(verdict.n_policies > 0);
}

const DEV_BRANCH: &str = "slicewright/dev-use1/ml-dev";
const DEV_POOLS: &str = "    pools:\n      - {name: ml-dev, labels: {pool: ml-dev}, node_per_hour: 1.212}\n    rules:\n      - \
                         {namespaces: [dev-*], set: {production: false}}\n";

fn dev_use1(notebooks: Notebooks) -> (Bot, String) {
    let prometheus = Prometheus::holding(&[&golden::dev_use1(notebooks)]);
    let place = |_: &str, text: String| notebooks.placed(&text);
    let repo = BareRepo::from_folder_with(&example("golden-dev-use1"), place);
    let bot = Bot::new(&prometheus, repo, "dev-use1", DEV_POOLS);
    let shown = bot.propose(&[]);
    (bot, shown)
}

#[test]
fn four_notebooks_take_turns_on_one_card() {
    let (bot, shown) = dev_use1(Notebooks::Dev);
    assert!(bot.repo.head(DEV_BRANCH).is_some(), "no proposal:\n{shown}");
    let added: String = bot
        .repo
        .git(&["diff", MAIN, DEV_BRANCH])
        .lines()
        .filter_map(|line| line.strip_prefix('+'))
        .map(|line| format!("{line}\n"))
        .collect();
    for written in ["name: time-slicing-config", "namespace: gpu-operator", "a10g-x4", "replicas: 4"] {
        assert!(added.contains(written), "`{written}` is missing in:\n{added}");
    }
    assert!(added.contains("failRequestsGreaterThanOne: true"), "{added}");
    let labels: Vec<&str> =
        added.lines().filter(|line| line.contains("nvidia.com/device-plugin.config: a10g-x4")).collect();
    assert_eq!(labels.len(), 1, "{added}");
    let text = bot.request();
    for said in
        ["17,920 MiB", "18,422 MiB", "nothing isolates memory", "kubectl drain ip-10-40-1-34", "$2,654"]
    {
        assert!(text.contains(said), "`{said}` is missing in:\n{text}");
    }
    assert!(!text.contains("kubectl drain ip-10-40-1-21"), "{text}");
    // The pods' own requests stay as they are.
    assert!(!bot.repo.git(&["diff", "--name-only", MAIN, DEV_BRANCH]).contains("nb-"));
}

#[test]
fn notebooks_of_two_sizes_share_in_two_groups_that_never_meet() {
    let prometheus = Prometheus::holding(&[&golden::two_sizes()]);
    let bot =
        Bot::new(&prometheus, BareRepo::from_folder(&example("golden-dev-use1")), "dev-use1", DEV_POOLS);
    let shown = bot.propose(&[]);
    assert!(bot.repo.head(DEV_BRANCH).is_some(), "no proposal:\n{shown}");
    let map = bot.repo.git(&["diff", MAIN, DEV_BRANCH]);
    for written in ["a10g-x2", "a10g-x6", "replicas: 2", "replicas: 6"] {
        assert!(map.contains(written), "`{written}` is missing in:\n{map}");
    }
    for (notebook, key) in
        [("nb-asha", "a10g-x2"), ("nb-jonas", "a10g-x2"), ("nb-mei", "a10g-x6"), ("nb-tomas", "a10g-x6")]
    {
        let path = format!("notebooks/{notebook}.yaml");
        let (before, after) =
            (bot.repo.read(MAIN, &path).unwrap(), bot.repo.read(DEV_BRANCH, &path).unwrap());
        let line =
            after.lines().find(|line| line.contains("nvidia.com/device-plugin.config")).unwrap_or_default();
        assert!(line.ends_with(&format!("nvidia.com/device-plugin.config: {key}")), "{after}");
        // Nothing but the selector differs.
        let kept: Vec<&str> = after.lines().filter(|l| !l.contains("nodeSelector:") && *l != line).collect();
        let were: Vec<&str> = before.lines().filter(|l| !l.contains("nodeSelector:")).collect();
        assert_eq!(kept, were);
    }
    let text = bot.request();
    for said in [
        "18,100 MiB",
        "pods of the two never meet",
        "each gets 1/6 of its time",
        "GPU Operator documentation",
    ] {
        assert!(text.contains(said), "`{said}` is missing in:\n{text}");
    }
}

#[test]
fn production_notebooks_are_left_alone_with_the_reason() {
    let (bot, shown) = dev_use1(Notebooks::Production);
    assert!(bot.left().requests.is_empty() && bot.left().branches.len() == 1);
    assert!(shown.contains("production: time-slicing isolates neither memory nor faults"), "{shown}");
}

#[test]
fn a_training_job_and_a_greedy_server_are_left_alone_with_the_reasons() {
    let prometheus = Prometheus::holding(&[&golden::train1()]);
    let repo = BareRepo::from_folder(&example("golden-train1"));
    let bot = Bot::new(&prometheus, repo, "train1", "");
    let shown = bot.propose(&[]);
    assert!(bot.left().requests.is_empty() && bot.left().branches.len() == 1);
    assert!(shown.contains("each pod holds 8 GPUs"), "{shown}");
    assert!(shown.contains("not what it needs"), "{shown}");
    let explained = super::bot::ok(&bot.run(&["explain", "chat/llm-8b-chat", "--at", super::bot::AT]));
    assert!(explained.contains("--gpu-memory-utilization"), "{explained}");
    assert!(explained.contains("vllm:kv_cache_usage_perc"), "{explained}");
}
