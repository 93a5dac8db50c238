//! Keys in the device plugin's config map: merged into the one that there is, or into a new one.

use slicewright_core::plan::PluginSharing;
use slicewright_yaml::{Document, Edit, Op, Shared};

use super::ManualChange;
use super::config_map;
use super::draft::Draft;
use super::format::Edition;
use super::gpu_operator::{NEUTRAL_KEY, assume, home, plugin_map_name, refer, reference, target, write_map};
use super::repository::Parsed;
use super::text::yaml;

/// One key of the device plugin's map.
pub(super) struct Sharing<'a> {
    pub(super) key: &'a str,
    pub(super) resource: &'a str,
    pub(super) replicas: u32,
    /// Refuse pods that ask for more than one.
    pub(super) fail: bool,
    /// How pods share.
    pub(super) how: PluginSharing,
}

impl Sharing<'_> {
    fn text(&self) -> String {
        let Sharing { resource, replicas, fail, .. } = self;
        let how = match self.how {
            PluginSharing::TimeSlicing => format!("timeSlicing:\n    failRequestsGreaterThanOne: {fail}"),
            // Under MPS the plugin refuses such requests anyway, and most versions take no other value.
            PluginSharing::Mps => "mps:".to_owned(),
        };
        format!(
            "version: v1\nsharing:\n  {how}\n    resources:\n      - name: {}\n        replicas: {replicas}\n",
            yaml(resource)
        )
    }
}

/// Makes one key part of the map.
pub(super) fn set_plugin(
    edition: &Edition<'_>,
    draft: &mut Draft<'_>,
    wish: &Sharing<'_>,
) -> Result<(), ManualChange> {
    let repository = edition.repository;
    let operator = &edition.declared.operator;
    let home = home(repository, operator);
    let (map_name, referenced) = plugin_map_name(operator);
    let key = wish.key;
    let manual = |why: String| ManualChange {
        what: format!(
            "Add the key `{key}` to the device plugin's config map `{map_name}` of namespace `{home}`"
        ),
        why,
        text: format!(
            "data:\n  {}: |\n{}{}",
            yaml(key),
            wish.text().lines().map(|line| format!("    {line}\n")).collect::<String>(),
            if referenced {
                String::new()
            } else {
                format!("---\n{}", reference(&[("devicePlugin.config.name", map_name)]))
            },
        ),
    };
    if wish.replicas < 2 {
        return Err(manual("the device plugin crashes on fewer than 2 replicas".to_owned()));
    }
    if operator.plugin_config_default.as_deref() == Some(key) {
        return Err(manual(format!(
            "`devicePlugin.config.default` names `{key}`: every node without a label would share its cards"
        )));
    }
    let target =
        target(edition, draft, map_name, &home, referenced, "plugin-config-map.yaml").map_err(&manual)?;
    let parsed = Parsed::new(&target.text).map_err(&manual)?;
    let root = parsed.documents().nth(target.map.document).and_then(|root| root.at(&target.map.prefix));
    let old = root.and_then(|root| root.get("data")).and_then(|data| data.get(key)).map(|node| node.as_str());
    let text = match old {
        Some(old) if old.is_some_and(|old| same_yaml(old, &wish.text())) => target.text.clone(),
        Some(_) => return Err(manual(format!("`{key}` is there already with another content"))),
        None => {
            let at = [target.map.prefix.clone(), vec!["data".into(), key.into()]].concat();
            let put = Edit {
                document: Document::Index(target.map.document),
                at,
                op: Op::Put { value: wish.text().into() },
                shared: Shared::Refuse,
            };
            slicewright_yaml::edit(&target.text, &[put]).map_err(|refusal| manual(refusal.to_string()))?
        }
    };
    write_map(edition, draft, &target, text, &home, map_name).map_err(&manual)?;
    assume(edition, draft, &target, "devicePlugin.config.name", referenced);
    if !referenced {
        let mut wanted = vec![("devicePlugin.config.name", map_name)];
        if target.new && operator.plugin_config_default.is_none() {
            wanted.push(("devicePlugin.config.default", NEUTRAL_KEY));
        }
        let effect = format!(
            "The device plugin now reads `{map_name}`: its pods restart once on every GPU node of the cluster; nodes \
             without the label `nvidia.com/device-plugin.config` share nothing."
        );
        refer(edition, draft, &wanted, &effect);
    }
    Ok(())
}

fn same_yaml(left: &str, right: &str) -> bool {
    let tree = |text: &str| {
        let stream = slicewright_yaml::read(text).ok()?;
        Some(config_map::plain(stream.document(0)?, 0))
    };
    tree(left).is_some() && tree(left) == tree(right)
}
