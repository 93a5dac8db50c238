//! Holds the files of `config/catalog` against the types and against each other.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{
    layouts::{self, Limits, Multiset},
    operator_config::{for_product, operator_config},
    *,
};
use crate::units::Mib;

/// File name → text of every file in `config/catalog`.
#[expect(clippy::disallowed_methods, reason = "the test reads what the program embeds")]
fn texts() -> BTreeMap<String, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/catalog");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    })
    .collect()
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let files = texts().into_iter().map(|(name, text)| match serde_saphyr::from_str::<CatalogFile>(&text) {
        Ok(file) => file,
        Err(error) => panic!("{name}: {error}"),
    });
    Catalog::merge(files).unwrap()
});

pub(crate) fn catalog() -> &'static Catalog {
    &CATALOG
}

pub(crate) fn name(text: &str) -> ProfileName {
    text.parse().unwrap()
}

fn multiset(counts: &[(&str, u8)]) -> Multiset {
    counts.iter().map(|(profile, count)| (name(profile), *count)).collect()
}

#[test]
fn holds_every_model_product_and_profile_of_the_survey() {
    let catalog = catalog();
    let (mig, whole): (Vec<_>, Vec<_>) = catalog.models().iter().partition(|model| model.can_partition());
    let products = |models: &[&GpuModel]| models.iter().map(|model| model.products.len()).sum::<usize>();
    assert_eq!((mig.len(), products(&mig)), (20, 39));
    assert_eq!((whole.len(), products(&whole)), (28, 28));
    assert_eq!(mig.iter().map(|model| model.profiles.len()).sum::<usize>(), 141);
}

#[test]
fn layouts_are_as_many_as_each_file_says() {
    let mut failed = Vec::new();
    for model in catalog().models().iter().filter(|model| model.can_partition()) {
        let stated = model.maximal_layouts.expect("every model that can partition states its layouts");
        let mut check = |what: &str, limits, keep: &dyn Fn(&MigProfile) -> bool, expected: LayoutCount| {
            let profiles: Vec<_> = model.profiles.iter().filter(|profile| keep(profile)).collect();
            let layouts = layouts::maximal(model, &profiles, limits);
            let got =
                LayoutCount { placements: layouts.len(), multisets: layouts::multisets(&layouts).len() };
            if got != expected {
                failed.push(format!("{} {what}: found {got:?}, the file says {expected:?}", model.id));
            }
        };
        let plain = |profile: &MigProfile| profile.name.attribute == Attribute::Plain;
        check("plain", Limits::SLICES_ONLY, &plain, stated.plain_profiles);
        check("all", Limits::CURRENT, &|profile| !profile.graphics, stated.all_but_gfx_with_engine_limits);
        if let Some(expected) = stated.plain_without_double_memory_1g {
            let keep = |profile: &MigProfile| plain(profile) && !profile.is_double_memory();
            check("without double-memory 1g", Limits::SLICES_ONLY, &keep, expected);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn no_layout_overlaps_or_leaves_the_card() {
    for model in catalog().models() {
        let profiles: Vec<_> = model.profiles.iter().collect();
        for layout in layouts::maximal(model, &profiles, Limits::CURRENT) {
            let ends = layout.placements.iter().map(|placement| placement.start + placement.size);
            let starts = layout.placements.iter().map(|placement| placement.start);
            assert!(ends.clone().zip(starts.skip(1)).all(|(end, next)| end <= next), "{layout:?}");
            assert!(ends.max().unwrap() <= model.memory_slices);
            let placed = layouts::place(model, &layout.multiset(), Limits::CURRENT).unwrap();
            assert_eq!(placed.multiset(), layout.multiset());
        }
    }
}

#[test]
fn a_layout_is_possible_when_a_placement_exists_not_when_the_slices_add_up() {
    let catalog = catalog();
    let fits = |id: &str, counts: &[(&str, u8)]| {
        layouts::place(catalog.find(id).unwrap(), &multiset(counts), Limits::CURRENT).is_some()
    };
    assert!(fits("a100-40gb", &[("3g.20gb", 1), ("1g.5gb", 4)]));
    assert!(fits("a100-40gb", &[("3g.20gb", 1), ("4g.20gb", 1)]));
    assert!(fits("a100-40gb", &[("2g.10gb", 3), ("1g.5gb", 1)]));
    assert!(
        !fits("a100-40gb", &[("3g.20gb", 2), ("1g.5gb", 1)]),
        "six compute slices, but no memory slice is left"
    );
    assert!(!fits("a100-40gb", &[("4g.20gb", 2)]));
    assert!(!fits("a100-40gb", &[("1g.5gb+me", 2)]));
    assert!(!fits("a100-40gb", &[("1g.6gb", 1)]), "an A30 profile");
    assert!(fits("gb200-186gb", &[("3g.95gb", 2)]), "the pre-production name");
    assert!(fits("rtx-pro-6000-blackwell-96gb", &[("1g.24gb+me.all", 1), ("1g.24gb-me", 3)]));
    assert!(!fits("rtx-pro-6000-blackwell-96gb", &[("1g.24gb+me.all", 1), ("1g.24gb", 1)]));
}

#[test]
fn drivers_before_r510_refuse_4g_beside_3g_on_a100() {
    let catalog = catalog();
    let a100 = catalog.find("a100-80gb").unwrap();
    let both = multiset(&[("3g.40gb", 1), ("4g.40gb", 1)]);
    let place = |driver: &str| {
        let driver = driver.parse().unwrap();
        layouts::place(a100, &both, Limits { engines: true, driver: Some(&driver) })
    };
    assert_eq!(place("470.256.02"), None);
    assert!(place("510.47.03").is_some());
}

#[test]
fn every_name_follows_from_the_memory_of_the_card() {
    for model in catalog().models() {
        let Some(total) = model.framebuffer.or(model.framebuffer_estimate) else {
            continue;
        };
        for profile in &model.profiles {
            let gb = profile_name::memory_gb(profile.memory.0 << 20, total.0 << 20);
            assert_eq!(gb, Some(profile.name.memory_gb), "{} {}", model.id, profile.name);
        }
    }
}

#[test]
fn finds_a_card_under_each_spelling_and_suffix() {
    let catalog = catalog();
    let id = |name: &str| catalog.find_by_product(name).map(|model| model.id.as_str());
    for name in [
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA-A100-SXM4-80GB",
        "A100-SXM4-80GB",
        "NVIDIA-A100-SXM4-80GB-SHARED",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me-SHARED",
        "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
        "NVIDIA A100-PCIE-80GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA-A100-80GB-PCIe",
        "A100 80GB PCIe",
    ] {
        assert_eq!(id(name), Some("a100-80gb"), "{name}");
    }
    assert_eq!(id("NVIDIA A100-SXM4-40GB"), Some("a100-40gb"));
    assert_eq!(id("NVIDIA H100 80GB HBM3"), Some("h100-80gb-sxm"));
    assert_eq!(id("NVIDIA H100 PCIe"), Some("h100-80gb-pcie"));
    assert_eq!(id("NVIDIA-GH200-480GB"), Some("h100-96gb"));
    assert_eq!(id("Tesla-T4-SHARED"), Some("t4"));
    assert_eq!(id("NVIDIA-L40S"), Some("l40s"));
    for unknown in
        ["NVIDIA A100", "A100", "NVIDIA A100-SXM4", "NVIDIA", "", "NVIDIA-A100-SXM4-80GB-MIG-odd", "T4"]
    {
        assert_eq!(id(unknown), None, "{unknown}");
    }
}

#[test]
fn every_product_is_found_by_name_label_and_alias() {
    let catalog = catalog();
    for model in catalog.models() {
        for product in &model.products {
            for name in [&product.name, &product.gfd_label].into_iter().chain(&product.aliases) {
                assert_eq!(catalog.find_by_product(name).map(|found| &found.id), Some(&model.id), "{name}");
                assert_eq!(model.product(name), Some(product), "{name}");
            }
        }
    }
}

#[test]
fn plain_profiles_go_up_and_stop_before_the_whole_card() {
    let catalog = catalog();
    let names = |id: &str| {
        let plain = catalog.find(id).unwrap().plain_profiles();
        plain.iter().map(|profile| profile.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("a100-40gb"), ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb"]);
    assert_eq!(names("a30-24gb"), ["1g.6gb", "2g.12gb"]);
    assert_eq!(names("rtx-pro-6000-blackwell-96gb"), ["1g.24gb", "2g.48gb"]);
    assert!(names("l4").is_empty());
    for model in catalog.models() {
        let plain = model.plain_profiles();
        assert!(plain.is_sorted_by(|a, b| a.memory_min <= b.memory_min), "{}", model.id);
        let sms: Vec<_> = plain.iter().filter_map(|profile| profile.sm).collect();
        assert!(sms.is_sorted(), "{}", model.id);
    }
}

#[test]
fn sizes_for_sharing_start_from_the_smallest_framebuffer_seen() {
    let catalog = catalog();
    let smallest = |id: &str| catalog.find(id).unwrap().smallest_framebuffer();
    assert_eq!(smallest("a10"), Some(Mib(22_731)));
    assert_eq!(smallest("t4"), Some(Mib(15_109)));
    assert_eq!(smallest("gh200-144gb"), None, "an estimate is no measurement");
}

#[test]
fn the_gaps_of_the_static_file_are_known() {
    let catalog = catalog();
    let of = |product: &str, profile: &str| {
        let model = catalog.find_by_product(product).unwrap();
        let config = for_product(model, model.product(product).unwrap(), name(profile)).unwrap();
        (config.name, config.count, config.in_static_file)
    };
    assert_eq!(of("NVIDIA A100-SXM4-40GB", "1g.10gb"), ("all-1g.10gb".to_owned(), 4, true));
    assert_eq!(of("NVIDIA A100-SXM4-80GB", "1g.10gb"), ("all-1g.10gb".to_owned(), 7, true));
    assert_eq!(of("NVIDIA A800-SXM4-40GB", "1g.10gb"), ("all-1g.10gb".to_owned(), 4, false));
    assert_eq!(of("NVIDIA H200", "1g.35gb"), ("all-1g.35gb".to_owned(), 4, true));
    assert_eq!(of("NVIDIA H200 NVL", "1g.35gb"), ("all-1g.35gb".to_owned(), 4, false));
    assert_eq!(of("NVIDIA GB300", "1g.35gb"), ("all-1g.35gb".to_owned(), 7, true));
    assert_eq!(of("NVIDIA GB300", "1g.31gb+me"), ("all-1g.31gb.me".to_owned(), 1, false));
    assert_eq!(of("NVIDIA RTX PRO 5000 Blackwell", "1g.24gb"), ("all-1g.24gb".to_owned(), 2, false));
    let balanced = |product: &str| {
        catalog.find_by_product(product).unwrap().product(product).unwrap().has_static_config("all-balanced")
    };
    assert!(balanced("NVIDIA RTX PRO 6000 Blackwell Server Edition"));
    assert!(!balanced("NVIDIA RTX PRO 6000 Blackwell Workstation Edition"));
    assert!(!balanced("NVIDIA A800-SXM4-40GB"));
    let a100 = catalog.find("a100-40gb").unwrap();
    assert!(!operator_config(a100, name("1g.10gb")).unwrap().in_static_file, "A800-SXM4-40GB lacks it");
    assert_eq!(operator_config(a100, name("1g.20gb")), None);
}

#[test]
fn a_gap_names_a_config_that_the_model_could_have() {
    for model in catalog().models() {
        for gap in model.products.iter().flat_map(|product| &product.missing_from_static_config) {
            let profile = ProfileName::from_config_name(gap).and_then(|name| model.profile(name));
            assert!(gap == "all-balanced" || profile.is_some(), "{}: {gap}", model.id);
        }
    }
}

#[test]
fn an_override_replaces_its_model_and_a_new_model_is_added() {
    let catalog = catalog();
    let mut a30 = catalog.find("a30-24gb").unwrap().clone();
    a30.notes = vec!["ours".to_owned()];
    let mut new = catalog.find("l4").unwrap().clone();
    new.id = "l4-plus".to_owned();
    new.products[0].name = "NVIDIA L4 Plus".to_owned();
    new.products[0].gfd_label = "NVIDIA-L4-Plus".to_owned();
    let changed = catalog.with_overrides(vec![a30, new.clone()]).unwrap();
    assert_eq!(changed.models().len(), catalog.models().len() + 1);
    assert_eq!(changed.find_by_product("NVIDIA A30").unwrap().notes, ["ours"]);
    assert_eq!(changed.find_by_product("NVIDIA-L4-Plus").unwrap().id, "l4-plus");
    let twice = catalog.with_overrides(vec![new.clone(), new]).unwrap_err();
    assert!(twice.problem.contains("overridden twice"), "{twice}");
}

#[test]
fn a_catalog_survives_being_recorded() {
    let catalog = catalog();
    let json = serde_json::to_string(catalog).unwrap();
    assert_eq!(&serde_json::from_str::<Catalog>(&json).unwrap(), catalog);
}

/// The message that an A30 gets after `change`.
fn refusal(change: impl FnOnce(&mut GpuModel)) -> String {
    let catalog = catalog();
    let mut model = catalog.find("a30-24gb").unwrap().clone();
    change(&mut model);
    catalog.with_overrides(vec![model]).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_is_refused_with_both_numbers() {
    assert_eq!(
        refusal(|model| model.profiles[2].starts.push(3)),
        "GPU model `a30-24gb`: profile `2g.12gb`: start 3 and size 2 reach beyond the 4 memory slices of the card"
    );
    assert_eq!(
        refusal(|model| model.profiles[0].max_instances = 5),
        "GPU model `a30-24gb`: profile `1g.6gb`: `max_instances` is 5, but placements and engines allow 4"
    );
    assert_eq!(
        refusal(|model| model.profiles[0].memory_min = Mib(6_000)),
        "GPU model `a30-24gb`: profile `1g.6gb`: `memory_mib_min` is 6,000 MiB, `memory_mib` is 5,952 MiB; it must be 1 to that"
    );
    assert_eq!(
        refusal(|model| model.products[0].gfd_label = "A30".to_owned()),
        "GPU model `a30-24gb`: product `NVIDIA A30`: `gfd_label` is `A30`, but the name gives `NVIDIA-A30`"
    );
    assert_eq!(
        refusal(|model| model.products[0].aliases.push("L4".to_owned())),
        "GPU model `l4`: `NVIDIA L4` is also a product of `a30-24gb`: a card must be one model"
    );
}

#[test]
fn each_check_of_a_model_bites() {
    type Change = fn(&mut GpuModel);
    let changes: [(&str, Change); 15] = [
        ("lower-case", |model| model.id = "A30".to_owned()),
        ("no product", |model| model.products.clear()),
        ("`sm_mig`", |model| model.sm_mig = Some(57)),
        ("0 MiB", |model| model.framebuffer_seen.push(Mib(0))),
        ("allows 48", |model| model.mps_max_replicas = 16),
        ("hex digits", |model| model.products[0].pci_device_id = Some("20B7".to_owned())),
        ("hex digits", |model| model.products[0].subsystem = Some("0x1".to_owned())),
        ("no `profiles`", |model| model.profiles.clear()),
        ("also needs", |model| model.memory_slices = 0),
        ("at most 16", |model| model.memory_slices = 17),
        ("sort by", |model| model.profiles.swap(0, 1)),
        ("would both be", |model| model.profiles[0].aliases.push(name("4g.24gb"))),
        ("whole card only", |model| model.profiles[4].memory = Mib(30_000)),
        ("ascending", |model| model.profiles[0].starts.reverse()),
        ("`+gfx`", |model| model.profiles[0].graphics = true),
    ];
    for (expected, change) in changes {
        let message = refusal(change);
        assert!(message.contains(expected), "{expected:?} is not in {message:?}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let text = texts().remove("turing.yaml").unwrap().replacen("nominal_gb:", "nominal_gib:", 1);
    let error = serde_saphyr::from_str::<CatalogFile>(&text).unwrap_err();
    let line = text.lines().position(|line| line.contains("nominal_gib")).unwrap() + 1;
    assert_eq!(error.location().map(|location| location.line()), Some(line as u64));
    assert!(error.to_string().contains("nominal_gib"), "{error}");
}
