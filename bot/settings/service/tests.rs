//! What the service configuration takes, and in which words it refuses.

use slicewright_core::policy::freeze::Freeze;

use super::*;

const MINIMAL: &str = "clusters:\n  - name: a\n    prometheus: {url: 'http://p:9090'}\n    repository: {path: \
                       infra.git}\n";

fn error(text: &str) -> String {
    ServiceSettings::parse(text, "slicewright.yaml", Path::new("/etc")).unwrap_err().to_string()
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let settings = ServiceSettings::parse(MINIMAL, "x", Path::new("/etc/slicewright")).unwrap();
    assert_eq!(settings.clusters[0].repository.path, Path::new("/etc/slicewright/infra.git"));
}

#[test]
fn an_unknown_field_is_shown_with_its_line() {
    let text = format!("{MINIMAL}widow_days: 3\n");
    let message = error(&text);
    assert!(message.contains("widow_days") && message.contains('5'), "{message}");
}

#[test]
fn a_rule_for_nobody_is_refused() {
    let message = error(&format!("{MINIMAL}rules:\n  - set: {{production: false}}\n"));
    assert!(message.contains("`rules[0]` (line 6): says nothing about whom"), "{message}");
}

#[test]
fn a_rule_that_sets_nothing_is_refused() {
    for rule in ["{namespaces: [a]}", "{namespaces: [a], set: {}}"] {
        let message = error(&format!("{MINIMAL}rules: [{rule}]\n"));
        assert!(message.contains("`rules[0].set` (line 5): says nothing"), "{message}");
    }
}

#[test]
fn an_error_names_the_line_and_speaks_of_settings() {
    for (more, said) in [
        ("policy: {max_surge: -1}", "must be a whole number and not negative at line 5, column 21"),
        ("policy: {compute_fill: much}", "must be a number at line 5, column 24"),
        ("policy: {exclude: maybe}", "must be `true` or `false` at line 5, column 19"),
        ("rules: {kinds: [Job]}", "must be a list: `[value, value]` at line 5, column 8"),
        ("policy: [exclude]", "must be a mapping: `{name: value}` at line 5, column 9"),
        ("pool_defaults: {goal: capasity}", "`capasity` is none of `bill`, `capacity` at line 5, column 23"),
        ("rules: [{kind: [Job]}]", "no setting is called `kind` here; there are `name`, `namespaces`"),
        (
            "pool_defaults:\n  freeze:\n    - {weekly: [fri]}\n    - {reason: x}",
            "`pool_defaults.freeze[1].from` (line 8): says no day",
        ),
        ("policy:\n  exclude: true\n  min_runs: 1\n  headroom_percent: 2000", "(line 8)"),
    ] {
        let message = error(&format!("{MINIMAL}{more}\n"));
        assert!(message.contains(said), "`{said}` is missing in: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn a_folder_outside_the_repository_is_refused() {
    let text = MINIMAL.replace("infra.git}", "infra.git, folders: [../x/]}");
    assert!(error(&text).contains("must stay inside the repository"));
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_the_place() {
    for (more, said) in [
        ("policy: {compute_fill: 75}", "`policy.compute_fill` (line 5): 7500 % is not above 0 and at most 1"),
        ("policy: {min_profile: banana}", "`policy.min_profile` (line 5): `banana` is no MIG profile"),
        ("policy: {methods: [keep-whole]}", "`policy.methods` (line 5): `keep-whole` is what is left"),
        ("policy: {time_slicing_max_replicas: 1}", "1 is not between 2 and 48"),
        ("rules: [{kinds: [Job], set: {min_coverage: 90}}]", "`rules[0].set.min_coverage`"),
        ("branch_prefix: a b", "`branch_prefix`"),
    ] {
        let message = error(&format!("{MINIMAL}{more}\n"));
        assert!(message.contains(said), "{message}");
    }
    let pools = MINIMAL.replace("infra.git}", "infra.git}\n    pools: [{name: p, nodes: 'x('}]");
    assert!(error(&pools).contains("`clusters[0].pools[0].nodes` (line 5): `x(`"), "{}", error(&pools));
}

#[test]
fn a_repository_on_a_forge_names_an_account_that_is_there() {
    let remote = "clusters:\n  - name: a\n    prometheus: {url: 'http://p:9090'}\n    repository: {forge: gh, name: \
                  acme/infra}\n";
    let account = "forges:\n  - {name: gh, token_env: T}\n";
    let settings = ServiceSettings::parse(&format!("{remote}{account}"), "x", Path::new("/etc")).unwrap();
    let repository = &settings.clusters[0].repository;
    assert_eq!(settings.forge_of(repository).unwrap().name, "gh");
    assert_eq!(settings.limits_of(repository), Limits::shared());
    assert_eq!(repository.place(), "gh:acme/infra");
    let says = |text: &str| ServiceSettings::parse(text, "x", Path::new("/etc")).unwrap_err().to_string();
    let message = says(remote);
    assert!(
        message.contains("`clusters[0].repository.forge` (line 4): `gh` is not `local` and none of `forges`"),
        "{message}"
    );
    for (from, to, said) in [
        ("name: acme/infra", "path: x", "`clusters[0].repository.path`"),
        ("name: acme/infra", "name: infra", "`clusters[0].repository.name`"),
        ("name: acme/infra", "name: acme/../infra", "`clusters[0].repository.name`"),
        ("forge: gh, name: acme/infra", "path: x, name: acme/infra", "`clusters[0].repository.name`"),
    ] {
        let message = says(&format!("{}{account}", remote.replace(from, to)));
        assert!(message.contains(said), "{message}");
    }
    let twice = format!("{remote}{account}  - {{name: gh, token_env: T}}\n");
    assert!(says(&twice).contains("`forges[1].name` (line 7): `gh` is named twice"), "{}", says(&twice));
}

#[test]
fn a_recording_says_nothing_of_forges() {
    let text = "forges:\n  - {name: gh, token_env: SECRET_NAME}\nclusters:\n  - name: a\n    prometheus: {url: \
                'http://p:9090'}\n    repository:\n      forge: gh\n      name: acme/infra\n";
    let settings = ServiceSettings::parse(text, "x", Path::new("/etc")).unwrap();
    let text =
        &format!("{text}server: {{listen: '10.1.2.3:80', pages: {{user: ops, password_file: words}}}}\n");
    let recorded = settings.without_addresses(text).unwrap();
    for word in ["acme", "SECRET_NAME", "10.1.2.3", "words"] {
        assert!(!recorded.contains(word), "{recorded}");
    }
    let again = ServiceSettings::parse(&recorded, "x", Path::new("/etc")).unwrap();
    assert_eq!(again.clusters[0].repository.path, Path::new("/etc/recorded-0.git"));
}

#[test]
fn a_cluster_named_twice_is_refused() {
    let twice = MINIMAL.replace("infra.git}", "infra.git, folders: [a/]}");
    let twice = format!("{twice}{}", twice.trim_start_matches("clusters:\n"));
    assert!(error(&twice).contains("`clusters[1].name` (line 5): `a` is named twice"));
}

#[test]
fn the_example_shows_every_setting_with_a_value_that_works() {
    let text = include_str!("../../../config/example.yaml");
    let uncommented: String = text
        .lines()
        .map(|line| line.strip_prefix("#:").unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    ServiceSettings::parse(&uncommented, "config/example.yaml", Path::new(".")).unwrap();
    let policy = serde_json::to_value(PolicySettings::default()).unwrap();
    let pool = serde_json::to_value(PoolSettings::default()).unwrap();
    let prices = serde_json::to_value(PriceSettings::default()).unwrap();
    let rule = serde_json::to_value(PolicyRule::default()).unwrap();
    let freeze = serde_json::to_value(Freeze::default()).unwrap();
    for object in [policy, pool, prices, rule, freeze] {
        for key in object.as_object().unwrap().keys() {
            assert!(uncommented.contains(&format!("{key}:")), "`{key}` is missing in config/example.yaml");
        }
    }
    for key in [
        "handle",
        "server",
        "listen",
        "tls",
        "certificate_file",
        "key_file",
        "hooks",
        "secrets",
        "tokens",
        "store",
        "connections",
        "keep_days",
        "schedule",
        "cron",
        "time_zone",
        "jitter_minutes",
        "workers",
        "commands_per_hour",
        "lease_seconds",
        "pages",
        "enabled",
        "user",
        "forwarded_user_header",
        "window_days",
        "branch_prefix",
        "author",
        "email",
        "former_emails",
        "proposals",
        "max_open",
        "max_per_hour",
        "hours",
        "days",
        "catalog",
        "pool_defaults",
        "clusters",
        "url",
        "bearer_token_file",
        "bearer_token_env",
        "username",
        "password_file",
        "password_env",
        "headers",
        "ca_file",
        "timeout_seconds",
        "max_concurrency",
        "max_answer_mib",
        "matchers",
        "forges",
        "kind",
        "api_url",
        "token_file",
        "token_env",
        "app",
        "id",
        "key_file",
        "former_ids",
        "former_logins",
        "signing_keys",
        "labels",
        "onboarding",
        "forge",
        "path",
        "branch",
        "merge_requests",
        "folders",
        "flux",
        "argo_cd",
        "new_files",
        "gpu_operator",
        "namespace",
        "version",
        "mig_strategy",
    ] {
        assert!(uncommented.contains(&format!("{key}:")), "`{key}` is missing in config/example.yaml");
    }
}
