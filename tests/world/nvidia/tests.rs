use super::*;

/// The complaints about one file.
fn check(text: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), text).unwrap();
    let found =
        look(folder.path(), &Meant { model: "a100-40gb".into(), names: vec!["own".into()] }).complaints;
    let short: Vec<&str> = found
        .iter()
        .map(|text| text.split_once("`: ").or(text.split_once(": ")).map_or(text.as_str(), |(_, rest)| rest))
        .collect();
    assert_eq!(short, expected, "{text}");
}

fn map(key: &str, inner: &str) -> String {
    let inner: String = inner.lines().map(|line| format!("    {line}\n")).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata:\n  {key}: |\n{inner}")
}

#[test]
fn a_mig_file_is_held_to_its_parser() {
    let file = |configs: &str| {
        let configs: String = configs.lines().map(|line| format!("  {line}\n")).collect();
        format!(
            "version: v1\nmig-configs:\n  all-disabled: [{{devices: all, mig-enabled: false}}]\n{configs}"
        )
    };
    let one = |entry: &str| map("config.yaml", &file(&format!("own: [{entry}]")));
    check(&one("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}"), &[]);
    check(&one("{devices: all, mig-enabled: true, mig-devices: {}}"), &[]);
    check(
        &one(
            "{devices: [0, 1], mig-enabled: true, mig-devices: {3g.20gb: 2}}, {devices: [2], mig-enabled: false}",
        ),
        &[],
    );
    let whole = |text: &str| format!("`own`: {text}");
    for (entry, complaint) in [
        (
            "{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 3}}",
            "3 `3g.20gb` are more than a a100-40gb holds",
        ),
        // Three and a half: the compute slices would do, the places do not.
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 3g.20gb: 2}}",
            "no places on a a100-40gb hold {\"1g.5gb\": 1, \"3g.20gb\": 2}",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.6gb: 1}}",
            "`1g.6gb` is no profile of a100-40gb",
        ),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}", "all numbers are 0"),
        ("{devices: all, mig-enabled: true}", "`mig-devices` is mandatory where MIG is on"),
        (
            "{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}",
            "`mig-devices` without `mig-enabled`",
        ),
        ("{devices: all}", "`mig-enabled` is mandatory"),
        ("{devices: some, mig-enabled: false}", "`devices` must be `all` or a list of indices, not \"some\""),
        ("{devices: all, mig-enabled: false, start: 0}", "unknown field `start`"),
        (
            "{devices: [0], mig-enabled: false}, {devices: [0], mig-enabled: false}",
            "several entries cover one card",
        ),
        (
            "{devices: all, device-filter: '0x10DE20B0', mig-enabled: false}",
            "`0x10DE20B0` is the id of no card that can be cut",
        ),
    ] {
        check(&one(entry), &[whole(complaint).as_str()]);
    }
    check(&map("mig.yaml", &file("")), &["the MIG manager reads the key `config.yaml` and no other"]);
    check(
        &map("config.yaml", "mig-configs: {}\nversion: v2\n"),
        &[
            "`version` must be `v1`, not \"v2\"",
            "a map of one's own must hold `all-disabled`: nodes with that label fail without it",
        ],
    );
}

#[test]
fn a_plugins_configuration_is_held_to_its_parser() {
    let shared =
        |way: &str, fields: &str| map("a-x4", &format!("version: v1\nsharing: {{{way}: {{{fields}}}}}\n"));
    let turns = |resource: &str| {
        shared("timeSlicing", &format!("failRequestsGreaterThanOne: true, resources: [{resource}]"))
    };
    check(&turns("{name: nvidia.com/gpu, replicas: 4}"), &[]);
    check(&turns("{name: gpu, replicas: 4}, {name: nvidia.com/mig-1g.5gb, replicas: 2}"), &[]);
    check(&map("any", "version: v1\n"), &[]);
    check(
        &turns("{name: nvidia.com/gpu, replicas: 1}"),
        &["1 replicas of `nvidia.com/gpu`: fewer than 2 crash the plugin"],
    );
    check(
        &turns("{name: nvidia.com/gpu, replicas: '4'}"),
        &["`replicas` of `nvidia.com/gpu` must be a whole number: \"4\""],
    );
    check(
        &turns("{name: nvidia.com/gpu, replicas: 4, devices: [0]}"),
        &["`devices` of `nvidia.com/gpu` is ignored by the plugin"],
    );
    check(&turns("{name: amd.com/gpu, replicas: 4}"), &["`amd.com/gpu` is no resource of the plugin"]);
    check(&turns(""), &["`timeSlicing`: no resources specified"]);
    check(
        &shared("timeSlicing", "renameByDefault: maybe, resources: [{name: gpu, replicas: 2}]"),
        &[
            "`failRequestsGreaterThanOne` is not said: without it a pod that asks for 2 gets no more than one",
            "`timeSlicing.renameByDefault` must be true or false",
        ],
    );
    check(
        &shared("mps", "resources: [{name: gpu, replicas: 49}]"),
        &["49 replicas of `gpu`: one MPS server takes 48"],
    );
    check(
        &shared("mps", "resources: [{name: mig-1g.5gb, replicas: 2}]"),
        &["MPS does not work on `mig-1g.5gb`"],
    );
    check(
        &map(
            "a",
            "version: v1\nsharing:\n  mps: {resources: [{name: gpu, replicas: 2}]}\n  timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 2}]}\n",
        ),
        &["`timeSlicing` and `mps` exclude each other"],
    );
    check(
        &map("a", "version: v1\nflags: {migStrategy: both}\n"),
        &["`migStrategy` must be none, single or mixed, not \"both\""],
    );
    check(
        &map(
            "a",
            "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 2}]}}\n",
        ),
        &["`version` must be `v1`, not null"],
    );
}

#[test]
fn a_cluster_policy_names_what_is_there() {
    let policy = |spec: &str| {
        format!("apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: p}}\nspec: {spec}\n---\n")
    };
    let plugin = map(
        "a-x4",
        "version: v1\nsharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 2}]}}\n",
    );
    check(&policy("{mig: {strategy: mixed}, migManager: {config: {name: '', default: all-disabled}}}"), &[]);
    check(
        &policy("{mig: {strategy: both}}"),
        &["`mig.strategy` must be one of [\"none\", \"single\", \"mixed\"], not \"both\""],
    );
    check(
        &policy("{migManager: {config: {name: default-mig-parted-config}}}"),
        &["`migManager.config.name` names the operator's own map: from 26.3 on that pins its static file"],
    );
    let with = |spec: &str| policy(spec) + &plugin;
    check(
        &with("{devicePlugin: {config: {name: m, default: a-x4}}}"),
        &["`devicePlugin.config.default` is `a-x4`, which shares every card of the fleet"],
    );
    check(
        &with("{devicePlugin: {config: {name: m, default: any}}}"),
        &["`devicePlugin.config.default` names `any`, which `m` lacks"],
    );
    let node = "\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {nvidia.com/device-plugin.config: b}}\n";
    check(
        &(with("{devicePlugin: {config: {name: m}}}") + node),
        &["`nvidia.com/device-plugin.config: b` is not in the map `m`"],
    );
}
