//! How the profiles of one model are called where driver branches disagree.
//!
//! A wrong name leaves pods pending for good, so that nothing here guesses: what neither the cluster nor the driver
//! says is not known.

use std::collections::{BTreeMap, BTreeSet};

use super::{DriverVersion, GpuModel, MigProfile, ProfileName};

/// What the profiles of a model are called: name in the catalog → name that the driver prints. A profile that is
/// missing has a name that was never seen.
pub type Names = BTreeMap<ProfileName, ProfileName>;

impl GpuModel {
    /// Every set of names that drivers have printed for this model, the catalog's own first; one for most models.
    pub fn name_sets(&self) -> Vec<Names> {
        let n_aliases = self.profiles.iter().map(|profile| profile.aliases.len()).max().unwrap_or(0);
        let own = self.profiles.iter().map(|profile| (profile.name, profile.name)).collect();
        std::iter::once(own).chain((0..n_aliases).map(|index| self.aliased(index))).collect()
    }

    /// The names of another driver branch. A profile without an alias keeps its name where NVIDIA's formula gives
    /// the same one for the memory that the branch reports, which is in the name of the whole card's profile.
    fn aliased(&self, index: usize) -> Names {
        let whole = self.profiles.iter().find(|profile| profile.memory_slices == self.memory_slices);
        let total_gb = whole.and_then(|whole| whole.aliases.get(index)).map(|name| name.memory_gb);
        let same = |profile: &MigProfile| {
            let slices = u32::from(self.memory_slices);
            let gb = (u32::from(profile.memory_slices) * total_gb? + slices / 2).checked_div(slices)?;
            (gb == profile.name.memory_gb).then_some(profile.name)
        };
        self.profiles
            .iter()
            .filter_map(|profile| {
                Some((profile.name, profile.aliases.get(index).copied().or_else(|| same(profile))?))
            })
            .collect()
    }

    /// Whether driver branches give the profiles that workloads may get different names.
    pub fn has_several_names(&self) -> bool {
        self.chain().iter().any(|profile| !profile.aliases.is_empty())
    }

    /// The names that this driver prints. `None`: not established.
    pub fn names_on(&self, driver: &DriverVersion) -> Option<Names> {
        let sets = self.name_sets();
        if !self.has_several_names() {
            return sets.into_iter().next();
        }
        let drivers = self.names_by_driver.as_ref()?;
        if driver < &drivers.name_before {
            return sets.into_iter().next();
        }
        (driver >= &drivers.alias_from).then(|| sets.into_iter().nth(1)).flatten()
    }

    /// The sets of names that fit what was seen in a cluster: all where nothing tells them apart, none where what was
    /// seen contradicts itself.
    pub fn names_seen(&self, seen: &BTreeSet<ProfileName>) -> Vec<Names> {
        let telling: Vec<ProfileName> = seen
            .iter()
            .copied()
            .filter(|name| self.profile(*name).is_some_and(|profile| !profile.aliases.is_empty()))
            .collect();
        let fits = |names: &Names| telling.iter().all(|name| names.values().any(|printed| printed == name));
        self.name_sets().into_iter().filter(fits).collect()
    }

    /// This model with its profiles called as in `names`; those without a name are left out.
    ///
    /// The other names become aliases, so that both are understood.
    #[must_use]
    pub fn renamed(&self, names: &Names) -> Self {
        let mut model = self.clone();
        model.profiles.retain_mut(|profile| {
            let Some(printed) = names.get(&profile.name).copied() else { return false };
            if printed != profile.name {
                profile.aliases.retain(|alias| *alias != printed);
                profile.aliases.push(profile.name);
                profile.name = printed;
            }
            true
        });
        model.not_together.retain_mut(|rule| {
            rule.profiles.iter_mut().all(|name| names.get(name).map(|printed| *name = *printed).is_some())
        });
        model
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{catalog, name};
    use super::*;

    fn model(id: &str) -> &'static GpuModel {
        catalog().find(id).unwrap()
    }

    fn seen(names: &[&str]) -> BTreeSet<ProfileName> {
        names.iter().map(|text| name(text)).collect()
    }

    #[test]
    fn an_aliased_profile_is_called_as_the_cluster_prints_it() {
        let gb200 = model("gb200-186gb");
        let names = gb200.names_seen(&seen(&["1g.24gb"]));
        assert_eq!(names.len(), 1);
        let renamed = gb200.renamed(&names[0]);
        let chain: Vec<String> = renamed.chain().iter().map(|profile| profile.name.to_string()).collect();
        assert_eq!(chain, ["1g.24gb", "1g.47gb", "2g.47gb", "3g.95gb", "4g.95gb"]);
        assert_eq!(
            renamed.profile(name("1g.23gb")).unwrap().name,
            name("1g.24gb"),
            "the other name is known"
        );
    }

    #[test]
    fn what_every_branch_prints_tells_nothing() {
        let gb200 = model("gb200-186gb");
        assert_eq!(gb200.names_seen(&seen(&["1g.47gb"])).len(), 2);
        assert_eq!(gb200.names_seen(&seen(&["1g.23gb", "3g.95gb"])).len(), 0, "a contradiction");
        assert_eq!(gb200.names_on(&"570.133.20".parse().unwrap()), None);
    }

    #[test]
    fn the_driver_decides_where_that_is_established() {
        let gb300 = model("gb300-278gb");
        let printed = |driver: &str| {
            let names = gb300.names_on(&driver.parse().unwrap())?;
            names.get(&name("1g.35gb")).map(ToString::to_string)
        };
        assert_eq!(printed("595.58.03").as_deref(), Some("1g.35gb"));
        assert_eq!(printed("610.10").as_deref(), Some("1g.31gb"));
        assert_eq!(printed("605.10"), None, "between the two nothing was seen");
    }

    #[test]
    fn a_name_that_was_never_seen_is_not_made_up() {
        let gb300 = model("gb300-278gb");
        let renamed = gb300.renamed(&gb300.names_on(&"610.10".parse().unwrap()).unwrap());
        let chain: Vec<String> = renamed.chain().iter().map(|profile| profile.name.to_string()).collect();
        assert_eq!(chain, ["1g.31gb", "3g.126gb", "4g.126gb"], "2g and the double 1g were not seen on 61x");
    }

    #[test]
    fn a_name_of_the_whole_card_alone_leaves_the_others_as_they_are() {
        let a100 = model("a100-80gb");
        assert!(!a100.has_several_names());
        assert_eq!(a100.names_on(&"470.57.02".parse().unwrap()), a100.name_sets().into_iter().next());
        let old = a100.names_seen(&seen(&["7g.79gb"]));
        assert_eq!(old.len(), 1);
        assert_eq!(a100.renamed(&old[0]).chain().len(), a100.chain().len());
    }

    #[test]
    fn renaming_to_the_catalogs_own_names_changes_nothing() {
        for model in catalog().models() {
            assert_eq!(&model.renamed(&model.name_sets()[0]), model, "{}", model.id);
        }
    }
}
