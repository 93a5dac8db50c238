//! The GPU catalog: the files of `config/catalog`, embedded, and files of the user's own on top.
//!
//! What a catalog must hold is checked in `slicewright_core::catalog`; here YAML becomes its types, and an error
//! names the file, the line and the way out.

use slicewright_core::catalog::{Catalog, CatalogError, CatalogFile};

/// Every file of `config/catalog` in reading order: its name and its text.
pub const FILES: &[(&str, &str)] = &[
    ("a100.yaml", include_str!("../../config/catalog/a100.yaml")),
    ("a30.yaml", include_str!("../../config/catalog/a30.yaml")),
    ("h100.yaml", include_str!("../../config/catalog/h100.yaml")),
    ("h200.yaml", include_str!("../../config/catalog/h200.yaml")),
    ("h20.yaml", include_str!("../../config/catalog/h20.yaml")),
    ("gh200.yaml", include_str!("../../config/catalog/gh200.yaml")),
    ("b200.yaml", include_str!("../../config/catalog/b200.yaml")),
    ("gb200.yaml", include_str!("../../config/catalog/gb200.yaml")),
    ("b300.yaml", include_str!("../../config/catalog/b300.yaml")),
    ("gb300.yaml", include_str!("../../config/catalog/gb300.yaml")),
    ("rtx-pro-blackwell.yaml", include_str!("../../config/catalog/rtx-pro-blackwell.yaml")),
    ("ada.yaml", include_str!("../../config/catalog/ada.yaml")),
    ("ampere.yaml", include_str!("../../config/catalog/ampere.yaml")),
    ("turing.yaml", include_str!("../../config/catalog/turing.yaml")),
    ("volta.yaml", include_str!("../../config/catalog/volta.yaml")),
    ("pascal.yaml", include_str!("../../config/catalog/pascal.yaml")),
    ("gb10.yaml", include_str!("../../config/catalog/gb10.yaml")),
];

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogLoadError {
    /// A file is not YAML of the right shape.
    #[error("{}: not a GPU catalog; correct it as in `config/catalog/README.md`, or leave the file out", place(.file, .source))]
    Unreadable {
        /// The file, as it was given.
        file: String,
        /// What is wrong in it; its text holds the line and the key.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// A file can be read, but a figure in it cannot be true.
    #[error("{file}: the GPU catalog contradicts itself; correct the model, or leave the file out")]
    Contradiction {
        /// The file, as it was given.
        file: String,
        /// The model and what does not hold.
        #[source]
        source: CatalogError,
    },
}

/// The catalog that the program carries.
pub fn embedded() -> Result<Catalog, CatalogLoadError> {
    let files: Vec<CatalogFile> = FILES
        .iter()
        .map(|(file, text)| read(&format!("config/catalog/{file}"), text))
        .collect::<Result<_, _>>()?;
    let contradiction =
        |source| CatalogLoadError::Contradiction { file: "config/catalog".to_owned(), source };
    Catalog::merge(files).map_err(contradiction)
}

/// The embedded catalog with a user's files on top, given as (path, text), later files over earlier ones.
///
/// A model with a known `id` replaces that one whole, another is added.
pub fn with_files<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Catalog, CatalogLoadError> {
    let mut catalog = embedded()?;
    for (file, text) in files {
        let contradiction = |source| CatalogLoadError::Contradiction { file: file.to_owned(), source };
        catalog = catalog.with_overrides(read(file, text)?.models).map_err(contradiction)?;
    }
    Ok(catalog)
}

fn read(file: &str, text: &str) -> Result<CatalogFile, CatalogLoadError> {
    serde_saphyr::from_str(text)
        .map_err(|source| CatalogLoadError::Unreadable { file: file.to_owned(), source: Box::new(source) })
}

/// `gpus.yaml:12:5`, or the file alone where the error has no place.
fn place(file: &str, error: &serde_saphyr::Error) -> String {
    match error.location() {
        Some(location) => format!("{file}:{}:{}", location.line(), location.column()),
        None => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/catalog");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut found: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        found.retain(|name| name.ends_with(".yaml"));
        found.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|(file, _)| *file).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
    }

    #[test]
    fn the_embedded_catalog_is_sound() {
        let catalog = embedded().unwrap();
        assert_eq!(catalog.find_by_product("NVIDIA-A30").unwrap().id, "a30-24gb");
    }

    const OURS: &str = "models:\n- id: l4\n  generation: ada\n  products:\n  \
        - {name: NVIDIA L4, gfd_label: NVIDIA-L4, confidence: verified}\n  \
        framebuffer_mib: 22000\n  mps_max_replicas: 48\n  confidence: verified\n";

    #[test]
    fn a_file_of_the_user_replaces_a_model() {
        let catalog = with_files([("ours.yaml", OURS)]).unwrap();
        assert_eq!(catalog.models().len(), embedded().unwrap().models().len());
        assert_eq!(catalog.find("l4").unwrap().smallest_framebuffer().unwrap().0, 22_000);
    }

    #[test]
    fn an_error_names_file_line_and_way_out() {
        let wrong = OURS.replace("framebuffer_mib", "framebuffer_gb");
        let error = with_files([("ours.yaml", wrong.as_str())]).unwrap_err().to_string();
        assert!(error.starts_with("ours.yaml:6:3: not a GPU catalog; correct it"), "{error}");

        let wrong = OURS.replace("gfd_label: NVIDIA-L4", "gfd_label: L4");
        let error = with_files([("ours.yaml", wrong.as_str())]).unwrap_err();
        assert!(error.to_string().starts_with("ours.yaml: the GPU catalog contradicts itself"), "{error}");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("GPU model `l4`: product `NVIDIA L4`: `gfd_label` is `L4`"), "{cause}");
    }
}
