//! Files that a repository does not have yet, from the frames in `templates/manifest/`.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

/// The frames by name.
const FRAMES: &[(&str, &str)] = &[
    ("mig-config-map.yaml", include_str!("../../templates/manifest/mig-config-map.yaml")),
    ("plugin-config-map.yaml", include_str!("../../templates/manifest/plugin-config-map.yaml")),
    ("labels.sh", include_str!("../../templates/manifest/labels.sh")),
    ("rollback.md", include_str!("../../templates/manifest/rollback.md")),
];

/// Fills a frame. The caller quotes what it puts in, since each frame is another language.
pub(super) fn fill(name: &str, values: Value) -> Result<String, String> {
    let Some((_, frame)) = FRAMES.iter().find(|(known, _)| *known == name) else {
        return Err(format!("there is no frame `{name}`"));
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let text = environment.render_str(frame, values).map_err(|error| format!("frame `{name}`: {error}"))?;
    Ok(format!("{}\n", text.trim_end()))
}
