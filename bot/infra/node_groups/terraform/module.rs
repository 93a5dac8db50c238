//! Node groups among the inputs of common public modules.

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use super::group::{Copy, Group, Name, many, name_of, title, unknown};
use super::resource::from_zero_in;
use crate::infra::hcl::{self, Holder, line, slice, span};
use crate::infra::text::one_line;

/// The source of a module, where it is one of a public module's spellings.
pub(super) fn source(block: &Block) -> &str {
    Holder::block(block).string("source").unwrap_or_default()
}

/// The name of a group in the EKS module: a prefix unless it says otherwise.
fn eks_name(text: &str, holder: &Holder<'_>, key: Option<&str>) -> Name {
    let name = match (holder.get("name"), key) {
        (Some(value), _) => name_of(text, value),
        (None, Some(key)) => Name::Literal(key.to_owned()),
        (None, None) => unknown(),
    };
    let by_prefix = holder.get("use_name_prefix").is_none_or(|value| value.as_bool() != Some(false));
    match name {
        Name::Literal(name) if by_prefix => Name::Prefix(format!("{name}-")),
        other => other,
    }
}

/// AWS: a map of groups, or the submodule for one.
pub(super) fn eks<'b>(text: &str, block: &'b Block, found: &mut Vec<Group<'b>>) {
    let source = source(block);
    if !source.contains("terraform-aws-modules/eks/aws")
        && !source.contains("terraform-aws-modules/terraform-aws-eks")
    {
        return;
    }
    let module = Holder::block(block);
    let place = span(block);
    if source.contains("modules/eks-managed-node-group") {
        found.push(Group {
            name: eks_name(text, &module, None),
            holder: Ok(module),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: module.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::Block(title(block, 0)),
            blocked: many(text, block),
            from_zero: from_zero_in(text, block),
        });
        return;
    }
    if source.contains("//modules/") {
        return;
    }
    let Some(value) = module.get("eks_managed_node_groups") else { return };
    let Expression::Object(object) = value else {
        let place = span(value);
        found.push(Group {
            name: unknown(),
            holder: Err("its groups do not stand there".to_owned()),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: None,
            copy: Copy::No,
            blocked: None,
            from_zero: None,
        });
        return;
    };
    // Labels of the defaults are replaced by those of a group, not merged with them.
    let defaults = match module.get("eks_managed_node_group_defaults") {
        Some(Expression::Object(defaults)) => {
            Holder::Object(defaults).get("labels").map(|value| span(value).start)
        }
        Some(other) => Some(span(other).start),
        None => None,
    };
    for (key, value) in object {
        let place = span(value.expr());
        let Expression::Object(group) = value.expr() else {
            found.push(Group {
                name: hcl::key_text(key).map_or_else(unknown, |key| Name::Prefix(format!("{key}-"))),
                holder: Err(format!(
                    "it is `{}`",
                    one_line(&slice(text, value.expr()).chars().take(60).collect::<String>())
                )),
                labels: "labels".to_owned(),
                start: place.start,
                end: place.end,
                name_at: None,
                copy: Copy::No,
                blocked: None,
                from_zero: None,
            });
            continue;
        };
        let holder = Holder::Object(group);
        let lost = defaults.filter(|_| holder.get("labels").is_none()).map(|at| {
            let why = "labels of its own would replace those of `eks_managed_node_group_defaults`";
            (why.to_owned(), line(text, at))
        });
        let from_zero = holder
            .get("min_size")
            .filter(|value| value.as_number().is_some_and(|number| number.as_u64() == Some(0)))
            .map(|value| line(text, span(value).start));
        found.push(Group {
            name: eks_name(text, &holder, hcl::key_text(key)),
            holder: Ok(holder),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: holder.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::Entry,
            blocked: many(text, block).or(lost),
            from_zero,
        });
    }
}

/// Google's module keeps labels of all pools in one map beside the list of pools.
pub(super) fn gke<'b>(text: &str, block: &'b Block, found: &mut Vec<Group<'b>>) {
    if !source(block).contains("kubernetes-engine") {
        return;
    }
    let module = Holder::block(block);
    let Some(Expression::Array(pools)) = module.get("node_pools") else { return };
    for pool in pools.iter() {
        let Expression::Object(object) = pool else { continue };
        let place = span(pool);
        let pool = Holder::Object(object);
        let name = pool.get("name").map_or_else(unknown, |value| name_of(text, value));
        let holder = match module.get("node_pools_labels") {
            Some(Expression::Object(labels)) => Ok(Holder::Object(labels)),
            Some(_) => Err("`node_pools_labels` of the module is not a map that stands there".to_owned()),
            None => Err("the module has no `node_pools_labels`".to_owned()),
        };
        let labels = pool.string("name").unwrap_or_default().to_owned();
        let from_zero = pool
            .get("min_count")
            .filter(|value| value.as_number().is_some_and(|number| number.as_u64() == Some(0)))
            .map(|value| line(text, span(value).start));
        found.push(Group {
            name,
            holder,
            labels,
            start: place.start,
            end: place.end,
            name_at: pool.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::No,
            blocked: many(text, block),
            from_zero,
        });
    }
}
