//! The profiles that workloads are given, in the order in which each can stand in for those before it.

use super::{Attribute, DriverVersion, GpuModel, MigProfile};

impl MigProfile {
    /// Video decoders of one instance; one whose engines are not established counts as none.
    pub fn decoders(&self) -> u8 {
        self.engines.map_or(0, |engines| engines.decoders)
    }
}

impl GpuModel {
    /// The profiles that a workload may be given: [`GpuModel::plain_profiles`], and after a plain profile without a
    /// video decoder the `+me` one of the same size where that has one.
    ///
    /// Each has at least the memory and the SMs of those before it, and a decoder once one before it had one. A `+me`
    /// profile that only adds optical flow (H100, RTX PRO) is left out: whether a workload uses that is not measured,
    /// and a card has one of them alone.
    pub fn chain(&self) -> Vec<&MigProfile> {
        let with_engines = |plain: &MigProfile| {
            self.profiles.iter().find(|other| {
                other.name.attribute == Attribute::Me
                    && (other.compute_slices, other.memory_slices)
                        == (plain.compute_slices, plain.memory_slices)
                    && plain.decoders() == 0
                    && other.decoders() > 0
            })
        };
        self.plain_profiles()
            .into_iter()
            .flat_map(|plain| std::iter::once(plain).chain(with_engines(plain)))
            .collect()
    }

    /// [`GpuModel::chain`] without what this driver cannot make, or refuses beside a smaller profile of the chain:
    /// of two that it refuses side by side (`4g` and `3g` before R510) the larger is left out.
    pub fn chain_on(&self, driver: &DriverVersion) -> Vec<&MigProfile> {
        self.chain().into_iter().filter(|profile| self.refused_by(driver, profile).is_none()).collect()
    }

    /// The first driver that offers `profile` of this model beside all smaller ones, where `driver` is older.
    pub fn refused_by<'a>(
        &'a self,
        driver: &DriverVersion,
        profile: &'a MigProfile,
    ) -> Option<&'a DriverVersion> {
        if let Some(need) = profile.min_driver.as_ref().filter(|need| driver < *need) {
            return Some(need);
        }
        let chain = self.chain();
        let place = |wanted: &MigProfile| chain.iter().position(|one| one.name == wanted.name);
        self.not_together
            .iter()
            .filter(|rule| driver < &rule.before_driver)
            .find(|rule| {
                let largest = rule.profiles.iter().filter_map(|name| place(self.profile(*name)?)).max();
                rule.profiles.len() > 1 && largest.is_some() && largest == place(profile)
            })
            .map(|rule| &rule.before_driver)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::catalog;
    use super::*;

    fn names(profiles: &[&MigProfile]) -> Vec<String> {
        profiles.iter().map(|profile| profile.name.to_string()).collect()
    }

    #[test]
    fn each_profile_of_a_chain_can_stand_in_for_those_before_it() {
        let mut n_with_engines = 0;
        for model in catalog().models() {
            let chain = model.chain();
            for pair in chain.windows(2) {
                let what = format!("{}: {} after {}", model.id, pair[1].name, pair[0].name);
                assert!(pair[1].memory_min >= pair[0].memory_min, "{what}");
                assert!(pair[1].memory_slices >= pair[0].memory_slices, "{what}");
                assert!(pair[1].sm.zip(pair[0].sm).is_none_or(|(after, before)| after >= before), "{what}");
                assert!(pair[1].decoders() > 0 || pair[0].decoders() == 0, "{what}");
            }
            n_with_engines += chain.iter().filter(|one| one.name.attribute == Attribute::Me).count();
        }
        assert_eq!(n_with_engines, 4, "three A100 and the A30");
    }

    #[test]
    fn a_plain_profile_without_a_decoder_is_followed_by_the_one_that_has_it() {
        let chain = |id: &str| names(&catalog().find(id).unwrap().chain());
        assert_eq!(chain("a100-40gb"), ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb"]);
        assert_eq!(chain("a30-24gb"), ["1g.6gb", "1g.6gb+me", "2g.12gb"]);
        assert_eq!(chain("h100-80gb-sxm"), ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb"]);
        assert_eq!(chain("rtx-pro-6000-blackwell-96gb"), ["1g.24gb", "2g.48gb"]);
    }

    #[test]
    fn older_drivers_have_a_shorter_chain() {
        let a100 = catalog().find("a100-40gb").unwrap();
        let on = |driver: &str| names(&a100.chain_on(&driver.parse().unwrap()));
        assert_eq!(on("450.80.02"), ["1g.5gb", "2g.10gb", "3g.20gb"]);
        assert_eq!(on("470.57.02"), ["1g.5gb", "1g.5gb+me", "2g.10gb", "3g.20gb"]);
        assert_eq!(on("510.39.01"), ["1g.5gb", "1g.5gb+me", "2g.10gb", "3g.20gb", "4g.20gb"]);
        assert_eq!(on("550.90.07").len(), a100.chain().len());
    }
}
