//! Pictures of plans, read back by an XML parser that is not ours: what is drawn is what was planned and measured.

mod history;

use std::process::Command;

use serde_json::Value;
use slicewright::engine::propose::{Report, Wishes};
use slicewright::engine::recording::Recording;
use slicewright::engine::{Engine, Quiet};
use slicewright::render::{Clothes, Packing, Room};
use slicewright::settings::ServiceSettings;
use slicewright_core::catalog::layouts::{Limits, maximal};
use slicewright_core::catalog::{Catalog, GpuModel};
use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::{CardUse, NodeFate, NodeOutcome, Outcome, Plan, PluginSharing, SliceUse};
use slicewright_core::policy::Method;
use slicewright_core::usage::WorkloadProfile;

use crate::world::checkout;
use crate::world::pictures::seen;

/// The demo's fleet: MIG on cards of one model, time-slicing on those of another.
struct Demo {
    engine: Engine,
    report: Report,
}

impl Demo {
    fn new() -> Self {
        let recording = std::fs::read(checkout("demo/recording.slicewright")).unwrap();
        let recording = Recording::from_bytes(&recording).unwrap();
        let settings =
            ServiceSettings::parse(&recording.config, "the demo", std::path::Path::new(".")).unwrap();
        let engine = Engine::with_catalog_files(settings, recording.catalog_files.clone()).unwrap();
        let wishes = Wishes { dry_run: true, ..Wishes::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let report =
            runtime.block_on(engine.propose(&Engine::replayed(&recording), &wishes, &Quiet)).unwrap();
        Self { engine, report }
    }

    fn plans(&self) -> Vec<&Plan> {
        let outcomes = self.report.clusters.iter().flat_map(|cluster| &cluster.analysis.outcomes);
        let plans = outcomes.filter_map(|outcome| match outcome {
            Outcome::Plan(plan) => Some(plan.as_ref()),
            Outcome::Nothing(_) => None,
        });
        plans.collect()
    }

    /// A plan of MIG, to be filled with other nodes.
    fn mig(&self) -> Plan {
        self.plans().into_iter().find(|plan| plan.method == Method::Mig).expect("the demo cuts cards").clone()
    }

    fn profile(&self, id: &WorkloadId) -> &WorkloadProfile {
        &self.report.clusters[0].analysis.measured.profiles[id]
    }

    fn catalog(&self) -> &Catalog {
        self.engine.catalog()
    }

    fn model(&self, id: &str) -> &GpuModel {
        self.catalog().find(id).unwrap()
    }
}

const ALL: [Clothes<'_>; 3] = [
    Clothes::File,
    Clothes::Page { id: "a-1", room: Room::Wide },
    Clothes::Page { id: "a-2", room: Room::Narrow },
];

/// Nothing but shapes and words, no style beside the file's own, and no address but of its own patterns.
fn is_plain(picture: &Value, clothes: Clothes<'_>) {
    let set = |key: &str| -> Vec<&str> {
        picture[key].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
    };
    let shapes = ["circle", "defs", "desc", "g", "path", "pattern", "rect", "style", "svg", "text", "title"];
    assert!(set("tags").iter().all(|tag| shapes.contains(tag)), "{:?}", set("tags"));
    assert_eq!(set("tags").contains(&"style"), clothes == Clothes::File);
    let known = [
        "aria-describedby",
        "aria-labelledby",
        "class",
        "cx",
        "cy",
        "d",
        "fill",
        "height",
        "id",
        "patternUnits",
        "r",
        "role",
        "text-anchor",
        "viewBox",
        "width",
        "x",
        "y",
    ];
    assert!(set("attributes").iter().all(|name| known.contains(name)), "{:?}", set("attributes"));
    assert!(set("used").iter().all(|id| set("ids").contains(id)), "{:?}", set("used"));
    assert_eq!(picture["role"], "img");
    if let Clothes::Page { id, .. } = clothes {
        assert!(set("ids").iter().all(|one| one.starts_with(id)), "{:?}", set("ids"));
    }
}

/// What a picture must show of a card: whose and what, from which to which thousandth of it.
fn meant(card: &CardUse, model: &GpuModel) -> Vec<(String, u64, u64)> {
    let whole = |words: String| vec![(words, 0, 1_000)];
    match card {
        CardUse::Idle => whole("idle".to_owned()),
        CardUse::Whole { workload } => whole(format!("whole GPU: {workload} ({})", workload.kind)),
        CardUse::Other { text } => whole(text.clone()),
        CardUse::Slices { slices } => {
            let all = u64::from(model.memory_slices);
            let slice = |slice: &SliceUse| {
                let size = model.profile(slice.profile.parse().unwrap()).unwrap().memory_slices;
                let (start, size) = (u64::from(slice.start), u64::from(size));
                let who = slice.workload.as_ref();
                let who = who.map_or_else(|| "free".to_owned(), |id| format!("{id} ({})", id.kind));
                (format!("{}: {who}", slice.profile), start * 1_000 / all, (start + size) * 1_000 / all)
            };
            let mut slices: Vec<_> = slices.iter().map(slice).collect();
            slices.sort_by_key(|(_, start, _)| *start);
            slices
        }
        CardUse::Shared { replicas, sharing, workloads } => {
            let what = match sharing {
                PluginSharing::TimeSlicing => "time slice",
                PluginSharing::Mps => "MPS share",
            };
            let n = u64::from(*replicas);
            let share = |i: u64| {
                let who = workloads.get(usize::try_from(i).unwrap());
                let who = who.map_or_else(|| "free".to_owned(), |id| format!("{id} ({})", id.kind));
                (format!("{what} {}/{n}: {who}", i + 1), i * 1_000 / n, (i + 1) * 1_000 / n)
            };
            (0..n).map(share).collect()
        }
    }
}

/// What a picture shows of a card, in the same words; what belongs to no slice is left out.
fn drawn(gpu: &Value) -> Vec<(String, u64, u64)> {
    let pieces = gpu.as_array().unwrap();
    let number = |piece: &Value, key: &str| piece[key].as_u64().unwrap();
    let left = number(&pieces[0], "x");
    let last = pieces.last().unwrap();
    let length = number(last, "x") + number(last, "width") - left;
    let mut at = left;
    for piece in pieces {
        assert_eq!(number(piece, "x"), at, "neighbours meet");
        at += number(piece, "width");
    }
    let place = |piece: &Value| {
        let from = number(piece, "x") - left;
        let thousandths = |at: u64| at * 1_000 / length;
        (
            piece["title"].as_str().unwrap().to_owned(),
            thousandths(from),
            thousandths(from + number(piece, "width")),
        )
    };
    pieces.iter().filter(|piece| piece["class"] != "uncut").map(place).collect()
}

fn agree(drawn: &[(String, u64, u64)], meant: &[(String, u64, u64)]) {
    let near = |a: u64, b: u64| a.abs_diff(b) <= 4;
    let same = drawn.len() == meant.len()
        && drawn.iter().zip(meant).all(|(a, b)| a.0 == b.0 && near(a.1, b.1) && near(a.2, b.2));
    assert!(same, "drawn {drawn:?}\nmeant {meant:?}");
}

/// The picture shows every node of the plan that has fewer than sixteen.
fn shows(picture: &Value, plan: &Plan, model: &GpuModel) {
    let nodes = picture["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), plan.nodes.len());
    for (node, outcome) in nodes.iter().zip(&plan.nodes) {
        assert_eq!(node["name"], outcome.name.as_str());
        let side = |key: &str| -> Vec<_> { node[key].as_array().unwrap().iter().map(drawn).collect() };
        for (drawn, card) in side("today").iter().zip(&outcome.before) {
            agree(drawn, &meant(card, model));
        }
        let then = side("then");
        assert_eq!(side("today").len(), outcome.before.len());
        if outcome.fate == NodeFate::Freed {
            assert_eq!(then, vec![vec![("freed".to_owned(), 0, 1_000)]; outcome.before.len()]);
        } else if outcome.after == outcome.before {
            assert!(then.is_empty());
        } else {
            assert_eq!(then.len(), outcome.after.len());
            for (drawn, card) in then.iter().zip(&outcome.after) {
                agree(drawn, &meant(card, model));
            }
        }
    }
}

#[test]
fn the_cards_of_a_picture_are_those_of_the_plan() {
    let demo = Demo::new();
    let plans = demo.plans();
    assert!(plans.len() >= 2, "the demo has a plan by MIG and one by time-slicing");
    for plan in plans {
        let model = demo.model(&plan.model);
        let packing = Packing::of(plan, Some(model));
        let pictures = ALL.map(|clothes| packing.svg(clothes, usize::MAX));
        for (picture, clothes) in seen(&pictures).iter().zip(ALL) {
            is_plain(picture, clothes);
            shows(picture, plan, model);
            assert_eq!(picture["title"], format!("GPUs of {}, before and after", plan.pool));
        }
        assert_eq!(pictures, ALL.map(|clothes| packing.svg(clothes, usize::MAX)), "same bytes");
    }
}

fn node(name: &str, fate: NodeFate, before: Vec<CardUse>, after: Vec<CardUse>) -> NodeOutcome {
    NodeOutcome { name: name.to_owned(), fate, before, after, restarts: Vec::new(), per_hour: None }
}

/// Every way to fill every card of the catalog.
#[test]
fn slices_are_as_wide_as_their_memory_on_every_card() {
    let demo = Demo::new();
    let mut pictures = Vec::new();
    let mut plans = Vec::new();
    for model in demo.catalog().models().iter().filter(|model| model.can_partition()) {
        let profiles: Vec<_> = model.profiles.iter().collect();
        let mut cards =
            maximal(model, &profiles, Limits::CURRENT).into_iter().map(|layout| CardUse::Slices {
                slices: (0..)
                    .zip(&layout.placements)
                    .map(|(n, placed)| SliceUse {
                        profile: placed.profile.to_string(),
                        start: placed.start,
                        workload: (n % 2 == 0).then(|| WorkloadId::new("Job", "batch", &format!("run-{n}"))),
                    })
                    .collect(),
            });
        // A picture has room for sixteen nodes of sixteen cards.
        while cards.len() > 0 {
            let mut plan = demo.mig();
            let nodes = (0..16).map(|n| {
                let after: Vec<CardUse> = cards.by_ref().take(16).collect();
                node(&format!("n-{n}"), NodeFate::Touched, vec![CardUse::Idle; after.len()], after)
            });
            plan.nodes = nodes.filter(|node| !node.after.is_empty()).collect();
            pictures.push(Packing::of(&plan, Some(model)).svg(ALL[1], usize::MAX));
            plans.push((plan, model));
        }
    }
    assert!(plans.len() > 10, "{} models", plans.len());
    for (picture, (plan, model)) in seen(&pictures).iter().zip(&plans) {
        shows(picture, plan, model);
    }
}

#[test]
fn what_nobody_holds_is_told_by_words_and_by_a_pattern() {
    let demo = Demo::new();
    let mut plan = demo.mig();
    let free = |profile: &str, start: u8| SliceUse { profile: profile.to_owned(), start, workload: None };
    let cut = CardUse::Slices { slices: vec![free("3g.40gb", 4)] };
    let shared = CardUse::Shared {
        sharing: PluginSharing::Mps,
        replicas: 3,
        workloads: vec![WorkloadId::new("Job", "a", "b")],
    };
    plan.nodes = vec![
        node("a", NodeFate::Touched, vec![CardUse::Idle; 2], vec![cut, shared]),
        node("b", NodeFate::Freed, vec![CardUse::Idle], Vec::new()),
    ];
    let model = demo.model(&plan.model);
    let pictures = [Packing::of(&plan, Some(model)).svg(Clothes::File, usize::MAX)];
    let picture = &seen(&pictures)[0];
    let of =
        |piece: &Value| (piece["texts"][0].clone(), piece["texts"][1].clone(), piece["patterns"].clone());
    let a = &picture["nodes"][0];
    let expected = |what: &str, who: Option<&str>, patterns: u64| {
        (Value::from(what), who.map_or(Value::Null, Value::from), Value::from(patterns))
    };
    assert_eq!(of(&a["today"][0][0]), expected("idle", None, 1));
    assert_eq!(of(&a["then"][0][0]), expected("not cut", None, 0));
    assert_eq!(of(&a["then"][0][1]), expected("3g.40gb", Some("free"), 1));
    assert_eq!(of(&a["then"][1][0]), expected("MPS share 1/3", Some("a/b"), 0));
    assert_eq!(of(&a["then"][1][1]), expected("MPS share 2/3", Some("free"), 1));
    assert_eq!(of(&picture["nodes"][1]["then"][0][0]), expected("freed", None, 1));
    let said = picture["desc"].as_str().unwrap();
    for words in
        ["GPU 1: idle", "not cut, 3g.40gb: free", "Node b, freed: today GPU 1: idle; then GPU 1: freed"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A card that no catalog knows, and places that contradict each other.
#[test]
fn slices_of_unknown_size_are_drawn_alike_and_the_picture_says_so() {
    let demo = Demo::new();
    let mut plan = demo.mig();
    let model = demo.model(&plan.model);
    let slice = |profile: &str, start: u8| SliceUse { profile: profile.to_owned(), start, workload: None };
    let of = |slices: Vec<SliceUse>, model: Option<&GpuModel>, plan: &mut Plan| {
        plan.nodes =
            vec![node("a", NodeFate::Untouched, vec![CardUse::Slices { slices }], vec![CardUse::Idle])];
        Packing::of(plan, model).svg(Clothes::File, usize::MAX)
    };
    let pictures = [
        of(vec![slice("1g.10gb", 0), slice("4g.40gb", 4)], None, &mut plan),
        of(vec![slice("unknown", 0), slice("1g.10gb", 1)], Some(model), &mut plan),
        of(vec![slice("3g.40gb", 0), slice("1g.10gb", 2)], Some(model), &mut plan),
        of(vec![slice("1g.10gb", 0), slice("3g.40gb", 7)], Some(model), &mut plan),
    ];
    for picture in seen(&pictures) {
        let pieces = picture["nodes"][0]["today"][0].as_array().unwrap().clone();
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert_eq!(pieces[0]["width"], pieces[1]["width"]);
        let texts = picture["texts"].as_array().unwrap();
        let said: Vec<&str> = texts.iter().map(|text| text["text"].as_str().unwrap()).collect();
        let said = said.join(" ");
        assert!(said.contains("slices whose sizes are not known are drawn alike"), "{said}");
    }
}

/// 300 nodes of eight cards: sixteen rows, and every other node is counted once.
#[test]
fn a_large_pool_is_drawn_by_nodes_that_stand_for_others() {
    let demo = Demo::new();
    let mut plan = demo.mig();
    let held = |n: u32| CardUse::Whole { workload: WorkloadId::new("Job", "batch", &format!("run-{n}")) };
    plan.nodes = (0..300_u32)
        .map(|n| {
            let name = format!("n-{n:03}");
            let before: Vec<CardUse> = (0..8).map(|card| held(n * 8 + card)).collect();
            match n % 3 {
                0 => node(&name, NodeFate::Freed, before, Vec::new()),
                1 => node(&name, NodeFate::Untouched, before.clone(), before),
                _ => node(&name, NodeFate::Touched, before, vec![CardUse::Idle; 8]),
            }
        })
        .collect();
    let packing = Packing::of(&plan, Some(demo.model(&plan.model)));
    assert_eq!(packing.nodes.len(), 16);
    let counted: u32 = packing.nodes.iter().map(|row| 1 + row.n_alike).sum();
    assert_eq!((counted, packing.n_others), (300, 0));
    assert!(packing.nodes.is_sorted_by_key(|row| &row.name));
    let pictures = [packing.svg(Clothes::File, usize::MAX), packing.svg(Clothes::File, 2)];
    assert!(pictures[0].len() < 200_000, "{} bytes", pictures[0].len());
    let few = &seen(&pictures)[1];
    assert_eq!(few["nodes"].as_array().unwrap().len(), 2);
    let names: Vec<&Value> = few["nodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["n-000", "n-002"], "those that change");
    let hidden = packing.nodes.iter().filter(|row| !["n-000", "n-002"].contains(&row.name.as_str()));
    let rest: u32 = hidden.map(|row| 1 + row.n_alike).sum();
    assert!(few["texts"].to_string().contains(&format!("and {rest} more nodes")), "{}", few["texts"]);

    // Of nodes that stay as they are one of each kind is enough.
    let before: Vec<CardUse> = (0..8).map(held).collect();
    let mut few = plan.clone();
    few.nodes.truncate(2);
    few.nodes.extend(
        (0..30).map(|n| node(&format!("o-{n}"), NodeFate::Untouched, before.clone(), before.clone())),
    );
    let packing = Packing::of(&few, Some(demo.model(&plan.model)));
    let rows: Vec<(&str, u32)> = packing.nodes.iter().map(|row| (row.name.as_str(), row.n_alike)).collect();
    assert_eq!(rows, [("n-000", 0), ("n-001", 30)]);

    // Each node another layout: one shape each.
    for (n, node) in (0_u32..).zip(&mut plan.nodes) {
        node.fate = NodeFate::Touched;
        node.after = (0..8).map(|bit| if n >> bit & 1 == 1 { held(bit) } else { CardUse::Idle }).collect();
    }
    let packing = Packing::of(&plan, Some(demo.model(&plan.model)));
    assert_eq!(packing.nodes.len(), 16);
    let counted: u32 = packing.nodes.iter().map(|row| 1 + row.n_alike).sum();
    assert_eq!(counted + packing.n_others, 300);
    assert!(packing.n_others > 200);
}

const HOSTILE: &str =
    "x\"'><script>@all</script> <!-- ]]> --> &lt; &#0; {{ x }} \u{202e}\u{1b}[31m\u{0}\u{fffe}\n/close";

#[test]
fn hostile_names_are_words_and_nothing_else() {
    let demo = Demo::new();
    let mut plan = demo.mig();
    let id = || WorkloadId::new(HOSTILE, HOSTILE, HOSTILE);
    let slices = vec![SliceUse { profile: HOSTILE.to_owned(), start: 0, workload: Some(id()) }];
    let cards = vec![CardUse::Whole { workload: id() }, CardUse::Other { text: HOSTILE.to_owned() }];
    plan.nodes = vec![node(HOSTILE, NodeFate::Touched, cards, vec![CardUse::Slices { slices }])];
    plan.pool.pool = HOSTILE.to_owned();
    plan.model_name = HOSTILE.to_owned();
    let packing = Packing::of(&plan, None);
    let mut history = history::history(&demo);
    history.workload = HOSTILE.to_owned();
    history.share = HOSTILE.to_owned();
    let pictures: Vec<String> = ALL
        .into_iter()
        .flat_map(|clothes| [packing.svg(clothes, usize::MAX), history.svg(clothes)])
        .collect();
    for (n, picture) in seen(&pictures).iter().enumerate() {
        is_plain(picture, ALL[n / 2]);
        assert!(picture["title"].as_str().unwrap().contains("<script>@all</script> <!-- ]]>"), "{picture}");
        assert!(!pictures[n].contains(['\u{202e}', '\u{1b}', '\0', '\u{fffe}']));
        assert!(!pictures[n].contains("<script") && !pictures[n].contains("<!--"));
    }
}

#[test]
fn the_files_of_a_run_are_its_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .arg("replay")
        .arg(checkout("demo/recording.slicewright"))
        .arg("--pictures")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = crate::world::repo::files_below(folder.path());
    let demo = Demo::new();
    let mut expected = Vec::new();
    for plan in demo.plans() {
        let branch = plan.pool.branch("slicewright");
        expected.push(format!("{branch}/packing.svg"));
        let names = plan.items.iter().map(|item| slicewright_core::ids::slug(&item.fit.workload.to_string()));
        expected.extend(names.map(|name| format!("{branch}/history-{name}.svg")));
        let text = std::fs::read_to_string(folder.path().join(&branch).join("packing.svg")).unwrap();
        assert_eq!(text, Packing::of(plan, Some(demo.model(&plan.model))).svg(Clothes::File, usize::MAX));
    }
    expected.sort();
    assert_eq!(files.into_iter().collect::<Vec<_>>(), expected);
}
