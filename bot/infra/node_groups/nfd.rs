//! Rules of Node Feature Discovery that set the label already: the value is changed there, and no rule is invented.

use slicewright_yaml::{Op, Step};

use super::spot::Spot;
use super::{Found, Label, Objects, edit_yaml};
use crate::infra::text::yaml;
use crate::infra::walk;

/// Every rule that sets the label.
pub(super) fn find<'a>(objects: &'a Objects<'_>, label: &Label<'a>) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for one in objects.of("nfd.k8s-sigs.io").filter(|one| one.object.kind == "NodeFeatureRule") {
        let Some(root) = one.parsed.at(one.object) else { continue };
        let (_, shared) = objects.names(&one);
        for (n, rule) in root.all("spec.rules[]").into_iter().enumerate() {
            if rule.get("labels").and_then(|labels| labels.get(label.key)).is_none() {
                continue;
            }
            let way: Vec<Step> =
                vec!["spec".into(), "rules".into(), n.into(), "labels".into(), label.key.into()];
            let spot = Spot::new(&root, &way);
            let place = one.place(spot.line);
            let today = match shared.clone() {
                Some(why) => Err(why),
                None => spot.today,
            };
            let name = walk::text(rule.node, "name").unwrap_or_default();
            let (object, value) = (one.object.clone(), label.value.to_owned());
            found.push(Found {
                path: one.file.path.to_owned(),
                today,
                text: format!("labels:\n  {}: {}\n", yaml(label.key), yaml(label.value)),
                second: String::new(),
                effects: vec![format!(
                    "`{place}`: the rule `{}` of NFD labels every node that it matches, of other groups too: see that it \
                     matches no others before this is merged.",
                    crate::infra::text::one_line(name)
                )],
                place,
                put: Box::new(move |text| {
                    edit_yaml(text, &object, &way, Op::Set { value: value.as_str().into() })
                }),
            });
        }
    }
    found
}
