//! `slicewright catalog`.

use slicewright_core::catalog::operator_config::operator_config;
use slicewright_core::catalog::{Catalog, GpuModel};

use super::DONE;
use super::args::{CatalogArgs, CatalogCommand};
use super::out::Out;
use crate::engine::Engine;
use crate::settings::ServiceSettings;

pub(super) fn run(args: &CatalogArgs, out: &mut Out) -> anyhow::Result<u8> {
    let settings = match &args.config {
        Some(path) => ServiceSettings::load(path)?.0,
        None => ServiceSettings::default(),
    };
    let engine = Engine::new(settings)?;
    match &args.command {
        CatalogCommand::List => list(engine.catalog(), out)?,
        CatalogCommand::Show { model } => show(engine.catalog(), model, out)?,
    }
    Ok(DONE)
}

fn list(catalog: &Catalog, out: &mut Out) -> anyhow::Result<()> {
    out.line(&format!("{:<30} {:>12}  {:<9} {}", "MODEL", "FRAMEBUFFER", "MIG", "PRODUCTS"))?;
    for model in catalog.models() {
        let products: Vec<&str> = model.products.iter().map(|product| product.name.as_str()).collect();
        out.line(&format!(
            "{:<30} {:>12}  {:<9} {}",
            model.id,
            model.framebuffer.map_or_else(|| "unknown".to_owned(), |mib| mib.to_string()),
            if model.can_partition() { format!("up to {}", model.max_instances) } else { "no".to_owned() },
            products.join(", ")
        ))?;
    }
    Ok(())
}

fn show(catalog: &Catalog, name: &str, out: &mut Out) -> anyhow::Result<()> {
    let Some(model) = catalog.find(name).or_else(|| catalog.find_by_product(name)) else {
        anyhow::bail!("no GPU model is called `{name}`: `slicewright catalog list` shows all");
    };
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    out.line(&format!("{} ({})", model.id, model.generation))?;
    for product in &model.products {
        out.line(&format!("  {}  label {}", product.name, product.gfd_label))?;
    }
    out.line(&format!("  framebuffer {}", known(model.framebuffer.map(|mib| mib.to_string()))))?;
    out.line(&format!("  SMs {}", known(model.sm_total.map(|sm| sm.to_string()))))?;
    if !model.can_partition() {
        out.line("  cannot be cut by MIG")?;
    } else {
        show_profiles(model, out)?;
    }
    for note in &model.notes {
        out.line(&format!("  note: {note}"))?;
    }
    Ok(())
}

fn show_profiles(model: &GpuModel, out: &mut Out) -> anyhow::Result<()> {
    out.line(&format!(
        "  {} compute and {} memory slices; MIG needs driver {} or newer",
        model.compute_slices,
        model.memory_slices,
        model.min_driver.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string),
    ))?;
    out.line(&format!(
        "  {:<14} {:>12} {:>5} {:>4}  {:<16} {}",
        "PROFILE", "USABLE", "SMS", "MAX", "STARTS", "RESOURCE"
    ))?;
    for profile in &model.profiles {
        let starts: Vec<String> = profile.starts.iter().map(ToString::to_string).collect();
        let ready = operator_config(model, profile.name).filter(|config| config.in_static_file);
        out.line(&format!(
            "  {:<14} {:>12} {:>5} {:>4}  {:<16} {}{}",
            profile.name.to_string(),
            profile.memory_min.to_string(),
            profile.sm.map_or_else(|| "?".to_owned(), |sm| sm.to_string()),
            profile.max_instances,
            starts.join(","),
            profile.name.resource(),
            ready.map_or_else(String::new, |config| format!("  (config {})", config.name)),
        ))?;
    }
    Ok(())
}
