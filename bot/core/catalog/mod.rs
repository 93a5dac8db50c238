//! What NVIDIA GPU models are, how they can be cut, and what the pieces hold.
//!
//! The facts are in `config/catalog/*.yaml`; `settings::catalog` reads them into the types here.
//! Whether a workload fits a piece is the question of `fit`.

mod model;

pub mod profile_name;

pub mod product_name;

pub mod version;

mod chain;

pub mod names;

mod check;

pub mod layouts;

pub mod operator_config;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use model::{
    Confidence, Engines, GpuModel, LayoutCount, MaximalLayouts, MigProfile, NamesByDriver, NotTogether,
    Product, RefusedMachine,
};
pub use profile_name::{Attribute, ProfileName};
pub use version::{ComputeCapability, DriverVersion};

use product_name::ProductLabel;

/// Every GPU model that is known, checked and in the order of the files.
///
/// Holds: ids are unique, no product name or label belongs to two models, and every model passes the checks of
/// `check.rs` (placements within the card, instance counts that follow from them, …).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CatalogFile", into = "CatalogFile")]
pub struct Catalog {
    models: Vec<GpuModel>,
    /// Product name as [`ProductLabel::key`] → position in `models`.
    by_product: BTreeMap<String, usize>,
}

/// One file of the catalog, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogFile {
    /// The models of one family.
    pub models: Vec<GpuModel>,
}

/// What is wrong with a catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GPU model `{model}`: {problem}")]
pub struct CatalogError {
    /// Id of the model.
    pub model: String,
    /// What does not hold, with both numbers and the way out.
    pub problem: String,
}

impl Catalog {
    /// Checks `models` and indexes their names.
    pub fn new(models: Vec<GpuModel>) -> Result<Self, CatalogError> {
        let mut ids = BTreeSet::new();
        let mut by_product = BTreeMap::new();
        for (position, model) in models.iter().enumerate() {
            let error = |problem| CatalogError { model: model.id.clone(), problem };
            check::model(model).map_err(error)?;
            if !ids.insert(&model.id) {
                return Err(error(
                    "is defined twice; give one of them another `id`, or override it".to_owned(),
                ));
            }
            let mut names = BTreeSet::new();
            for product in &model.products {
                if !names.insert(&product.name) {
                    return Err(error(format!("lists product `{}` twice", product.name)));
                }
                for name in [&product.name, &product.gfd_label].into_iter().chain(&product.aliases) {
                    let key = ProductLabel::parse(name).key().to_owned();
                    let first = *by_product.entry(key).or_insert(position);
                    if first != position {
                        let other = &models[first].id;
                        return Err(error(format!(
                            "`{name}` is also a product of `{other}`: a card must be one model"
                        )));
                    }
                }
            }
        }
        Ok(Self { models, by_product })
    }

    /// One catalog of several files.
    pub fn merge(files: impl IntoIterator<Item = CatalogFile>) -> Result<Self, CatalogError> {
        Self::new(files.into_iter().flat_map(|file| file.models).collect())
    }

    /// This catalog with a user's models: an id that exists is replaced in its place, a new one is added.
    pub fn with_overrides(&self, overrides: Vec<GpuModel>) -> Result<Self, CatalogError> {
        let mut models = self.models.clone();
        let mut seen = BTreeSet::new();
        for model in overrides {
            if !seen.insert(model.id.clone()) {
                let problem = "is overridden twice; keep one of the two".to_owned();
                return Err(CatalogError { model: model.id, problem });
            }
            match models.iter_mut().find(|known| known.id == model.id) {
                Some(known) => *known = model,
                None => models.push(model),
            }
        }
        Self::new(models)
    }

    /// The models, in the order of the files.
    pub fn models(&self) -> &[GpuModel] {
        &self.models
    }

    /// The model with this id.
    pub fn find(&self, id: &str) -> Option<&GpuModel> {
        self.models.iter().find(|model| model.id == id)
    }

    /// The model of a card, from DCGM's `modelName` (blanks kept or replaced) or from the node label
    /// `nvidia.com/gpu.product` with any of its suffixes; with or without a leading `NVIDIA`.
    ///
    /// `None` when no product has exactly this name. A card is never guessed from part of a name:
    /// `NVIDIA A100-SXM4-80GB` and `NVIDIA A100-SXM4-40GB` are cut into different pieces.
    pub fn find_by_product(&self, name_or_label: &str) -> Option<&GpuModel> {
        let position = self.by_product.get(ProductLabel::parse(name_or_label).key())?;
        self.models.get(*position)
    }

    /// Every profile name of every model and driver branch: the table for
    /// [`ProfileName::from_sanitised_resource`].
    pub fn profile_names(&self) -> BTreeSet<ProfileName> {
        let profiles = self.models.iter().flat_map(|model| &model.profiles);
        profiles
            .flat_map(|profile| std::iter::once(profile.name).chain(profile.aliases.iter().copied()))
            .collect()
    }
}

impl TryFrom<CatalogFile> for Catalog {
    type Error = CatalogError;

    fn try_from(file: CatalogFile) -> Result<Self, Self::Error> {
        Self::new(file.models)
    }
}

impl From<Catalog> for CatalogFile {
    fn from(catalog: Catalog) -> Self {
        Self { models: catalog.models }
    }
}
