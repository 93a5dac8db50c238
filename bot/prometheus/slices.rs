//! MIG profiles from the names that exporters print: DCGM's `GPU_I_PROFILE`, kube-state-metrics' resources.

use std::collections::BTreeSet;

use slicewright_core::catalog::{Attribute, ProfileName};
use slicewright_core::inventory::UNKNOWN_PROFILE;

use super::response::Series;

const PREFIX: &str = "nvidia_com_mig_";

/// The profile that a row of an instance names, in list spelling. `None`: DCGM is too old for the driver and prints a
/// blank, or the label is dropped.
pub(super) fn printed_profile(row: &Series) -> Option<String> {
    let text = row.label("GPU_I_PROFILE")?;
    let name = text.parse().ok().or_else(|| ProfileName::from_kubernetes(text));
    Some(name.map_or_else(|| text.to_owned(), |name| name.to_string()))
}

/// The one profile that all rows of an instance agree on.
pub(super) fn agreed(printed: &BTreeSet<String>) -> String {
    match printed.first() {
        Some(profile) if printed.len() == 1 => profile.clone(),
        Some(_) | None => UNKNOWN_PROFILE.to_owned(),
    }
}

/// Whether a resource stands for slices with a name of their own.
pub(super) fn is_slice(resource: &str) -> bool {
    resource.starts_with(PREFIX)
}

/// The profile that a pod gets by asking for `resource`, in list spelling; [`UNKNOWN_PROFILE`] where the name may stand
/// for several. `None`: it is no MIG resource.
pub(super) fn asked_profile(resource: &str, names: &BTreeSet<ProfileName>) -> Option<String> {
    is_slice(resource).then(|| match candidates(resource, names).as_slice() {
        [name] => name.to_string(),
        _ => UNKNOWN_PROFILE.to_owned(),
    })
}

/// A resource as Kubernetes spells it. `held` is the profile that its pods hold, where that is known; a name that still
/// may stand for several is left as it is.
pub(super) fn kubernetes_resource(
    resource: &str,
    names: &BTreeSet<ProfileName>,
    held: Option<&str>,
) -> String {
    if is_slice(resource) {
        let candidates = candidates(resource, names);
        let read = held.and_then(|held| held.parse().ok());
        let name = match candidates.as_slice() {
            [name] => Some(*name),
            several => read.filter(|name| several.contains(name)),
        };
        let shared = if resource.ends_with("_shared") { ".shared" } else { "" };
        return name.map_or_else(|| resource.to_owned(), |name| format!("{}{shared}", name.resource()));
    }
    match resource {
        "nvidia_com_gpu" => "nvidia.com/gpu".to_owned(),
        "nvidia_com_gpu_shared" => "nvidia.com/gpu.shared".to_owned(),
        other => match other.strip_prefix("nvidia_com_") {
            Some(rest) => format!("nvidia.com/{}", rest.replace('_', "-")),
            None => other.to_owned(),
        },
    }
}

/// The profiles that kube-state-metrics prints as `resource`: those of `names`, else all that there could be.
fn candidates(resource: &str, names: &BTreeSet<ProfileName>) -> Vec<ProfileName> {
    let resource = resource.strip_suffix("_shared").unwrap_or(resource);
    let mut parts = resource.strip_prefix(PREFIX).unwrap_or_default().split('_');
    let size = match (parts.next(), parts.next()) {
        (Some(g), Some(gb)) => ProfileName::from_kubernetes(&format!("{g}.{gb}")),
        (_, _) => None,
    };
    let Some(size) = size else { return Vec::new() };
    let sized = Attribute::ALL.into_iter().map(|attribute| ProfileName { attribute, ..size });
    let spelled = ProfileName::from_sanitised_resource(resource, &sized.collect());
    let known: Vec<ProfileName> = spelled.iter().copied().filter(|name| names.contains(name)).collect();
    // A profile that the catalog does not know has its size in its name all the same.
    if known.is_empty() { spelled } else { known }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<ProfileName> {
        all.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn resources_are_mapped_back_by_the_catalogs_names() {
        let names = names(&["1g.5gb", "1g.10gb+me", "1g.24gb+me", "1g.24gb-me", "2g.48gb-me"]);
        for (from, profile, to) in [
            ("nvidia_com_gpu", None, "nvidia.com/gpu"),
            ("nvidia_com_gpu_shared", None, "nvidia.com/gpu.shared"),
            ("nvidia_com_mig_1g_5gb", Some("1g.5gb"), "nvidia.com/mig-1g.5gb"),
            ("nvidia_com_mig_1g_10gb_me", Some("1g.10gb+me"), "nvidia.com/mig-1g.10gb.me"),
            ("nvidia_com_mig_2g_48gb_me", Some("2g.48gb-me"), "nvidia.com/mig-2g.48gb-me"),
            ("nvidia_com_mig_1g_5gb_shared", Some("1g.5gb"), "nvidia.com/mig-1g.5gb.shared"),
            // Not in the catalog, and still of one meaning only.
            ("nvidia_com_mig_9g_99gb", Some("9g.99gb"), "nvidia.com/mig-9g.99gb"),
            ("nvidia_com_mig_1g_24gb_me_all", Some("1g.24gb+me.all"), "nvidia.com/mig-1g.24gb.me.all"),
        ] {
            assert_eq!(asked_profile(from, &names).as_deref(), profile, "{from}");
            assert_eq!(kubernetes_resource(from, &names, None), to);
        }
    }

    #[test]
    fn a_name_of_two_profiles_is_told_by_the_reading_or_left_as_it_is() {
        let known = names(&["1g.24gb+me", "1g.24gb-me"]);
        for names in [&known, &BTreeSet::new()] {
            let resource = "nvidia_com_mig_1g_24gb_me";
            assert_eq!(asked_profile(resource, names).as_deref(), Some(UNKNOWN_PROFILE));
            let spelled = |held| kubernetes_resource(resource, names, held);
            assert_eq!(spelled(Some("1g.24gb-me")), "nvidia.com/mig-1g.24gb-me");
            assert_eq!(spelled(Some("1g.24gb+me")), "nvidia.com/mig-1g.24gb.me");
            for held in [None, Some(UNKNOWN_PROFILE), Some("1g.24gb"), Some("2g.48gb-me")] {
                assert_eq!(spelled(held), resource, "{held:?}");
            }
        }
    }

    #[test]
    fn a_text_that_is_no_profile_names_none() {
        for resource in ["nvidia_com_mig_1g_5gb_new", "nvidia_com_mig_", "nvidia_com_mig_big_5gb"] {
            assert_eq!(asked_profile(resource, &BTreeSet::new()).as_deref(), Some(UNKNOWN_PROFILE));
            assert_eq!(kubernetes_resource(resource, &BTreeSet::new(), Some("1g.5gb")), resource);
        }
    }

    #[test]
    fn rows_that_disagree_name_no_profile() {
        let set = |all: &[&str]| -> BTreeSet<String> { all.iter().map(|name| (*name).to_owned()).collect() };
        assert_eq!(agreed(&set(&["1g.5gb"])), "1g.5gb");
        assert_eq!(agreed(&set(&[])), UNKNOWN_PROFILE);
        assert_eq!(agreed(&set(&["1g.5gb", "2g.10gb"])), UNKNOWN_PROFILE);
    }
}
