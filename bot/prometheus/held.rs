//! Who holds which card and which MIG instance now, and what those have.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::catalog::ProfileName;
use slicewright_core::inventory::{Card, Node, Sharing, Slice, SliceId, UNKNOWN_PROFILE, slice_profile};
use slicewright_core::units::Mib;
use slicewright_core::usage::fold::{HeldNow, NodeToday, PodName};

use super::discover::{Discovery, whole};
use super::response::Series;
use super::rows::{BLANK_MIB, Bounds, holder};
use super::slices::{agreed, asked_profile, printed_profile};
use super::today::Today;

impl Today {
    /// A row of `FB_USED`: of a whole card, of an instance, or of the parent beside its instances.
    pub(super) fn card(&mut self, row: &Series, value: f64, discovery: &Discovery) {
        let Some(uuid) = row.first_label(&["UUID", "uuid"]) else { return };
        let host = row.first_label(&["Hostname", "hostname"]).map(str::to_owned);
        let (card, at) = self.cards.entry(uuid.to_owned()).or_default();
        uuid.clone_into(&mut card.uuid);
        if let Some(model) = row.first_label(&["modelName", "modelname"]) {
            model.clone_into(&mut card.model_name);
        }
        card.driver_version =
            row.label("DCGM_FI_DRIVER_VERSION").map(str::to_owned).or(card.driver_version.take());
        *at = at.take().or(host);
        let used = (value < BLANK_MIB).then(|| Mib(whole(value)));
        let pod = holder(row, &discovery.exported_jobs);
        let Some(id) = row.label("GPU_I_ID") else {
            card.used_now = card.used_now.max(used);
            if let Some(pod) = pod {
                self.held.entry(pod).or_default().insert(uuid.to_owned());
            }
            return;
        };
        let slice = instance(card, id);
        slice.used_now = slice.used_now.max(used);
        let id = SliceId { card: uuid.to_owned(), id: id.to_owned() };
        let printed = self.printed.entry(id.clone()).or_default();
        printed.extend(printed_profile(row));
        slice.profile = agreed(printed);
        if let Some(pod) = pod {
            self.held_slices.entry(pod).or_default().insert(id);
        }
    }

    /// A row of `FB_USED + FB_FREE`; rows of `FB_USED` alone come before.
    pub(super) fn memory(&mut self, row: &Series, value: f64) {
        if value >= BLANK_MIB {
            return;
        }
        let memory = Mib(whole(value));
        let card = row.first_label(&["UUID", "uuid"]).and_then(|uuid| self.cards.get_mut(uuid));
        let Some((card, _)) = card else { return };
        if let Some(id) = row.label("GPU_I_ID") {
            let slice = instance(card, id);
            slice.usable = Some(slice.usable.map_or(memory, |seen| seen.min(memory)));
            return;
        }
        card.used_plus_free = card.used_plus_free.max(Some(memory));
        if !card.is_cut() && !card.model_name.is_empty() {
            let largest = self.used_plus_free.entry(card.model_name.clone()).or_insert(memory);
            *largest = (*largest).max(memory);
        }
    }

    pub(super) fn smaller_framebuffer(&mut self, model: &str, memory: Mib) {
        if memory.0 > 0 && (memory.0 as u128) < 10_000_000 {
            let entry = self.framebuffer.entry(model.to_owned()).or_insert(memory);
            *entry = (*entry).min(memory);
        }
    }

    /// Puts cards on nodes, tells who holds what, and takes the memory of models from the labels of whole nodes.
    pub(super) fn join(&mut self, names: &BTreeSet<ProfileName>) {
        self.name_slices_by_pods(names);
        self.place_cards();
        self.name_slices_by_nodes();
        for (card, _) in self.cards.values() {
            for slice in card.slices.iter().filter(|slice| slice.profile != UNKNOWN_PROFILE) {
                let Some(usable) = slice.usable else { continue };
                let smallest = self.slice_memory.entry(card.model_name.clone()).or_default();
                let entry = smallest.entry(slice.profile.clone()).or_insert(usable);
                *entry = (*entry).min(usable);
            }
        }
        self.drop_parents(names);
        let mut found: Vec<(String, Mib)> = Vec::new();
        for node in self.nodes.values_mut() {
            node.taints.sort();
            node.taints.dedup();
            let memory = node.label("nvidia.com/gpu.memory").and_then(|text| text.parse::<u64>().ok());
            let models = node.model_names();
            if let (Some(memory), Sharing::Whole) = (memory, node.sharing())
                && models.len() == 1
            {
                found.extend(models.iter().map(|model| ((*model).to_owned(), Mib(memory))));
            }
        }
        for (model, memory) in found {
            self.smaller_framebuffer(&model, memory);
        }
    }

    /// A slice that a running pod holds is what that pod asks for.
    fn name_slices_by_pods(&mut self, names: &BTreeSet<ProfileName>) {
        for (pod, ids) in &self.held_slices {
            let running = self.pods.get(pod).filter(|now| now.running);
            let Some(asked) = running.and_then(|now| asked_profile(&now.resource, names)) else { continue };
            for id in ids {
                let card = self.cards.get_mut(&id.card).map(|(card, _)| card);
                let slice = card.and_then(|card| card.slices.iter_mut().find(|slice| slice.id == id.id));
                if let Some(slice) = slice {
                    slice.profile = slice_profile(&slice.profile, Some(&asked));
                }
            }
        }
    }

    fn place_cards(&mut self) {
        let mut node_of: BTreeMap<&str, &str> = BTreeMap::new();
        let slices = self.held_slices.iter().flat_map(|(pod, ids)| ids.iter().map(move |id| (pod, &id.card)));
        let cards = self.held.iter().flat_map(|(pod, cards)| cards.iter().map(move |card| (pod, card)));
        for (pod, card) in slices.chain(cards) {
            if let Some(now) = self.pods.get(pod) {
                node_of.insert(card, &now.node);
            }
        }
        for (uuid, (card, host)) in &self.cards {
            let known = |name: &&str| self.nodes.contains_key(*name);
            let name = host
                .as_deref()
                .filter(known)
                .or_else(|| node_of.get(uuid.as_str()).copied())
                .filter(|n| !n.is_empty());
            // A host that Kubernetes does not know is no node, unless Kubernetes is not seen at all.
            let name = name.or(if self.nodes.is_empty() { host.as_deref() } else { None });
            if let Some(name) = name.map(str::to_owned) {
                let node = self.nodes.entry(name.clone()).or_insert_with(|| Node { name, ..Node::default() });
                let mut card = card.clone();
                card.slices.sort();
                node.cards.push(card);
            }
        }
    }

    /// Strategy `single` has one profile on a node, and the product label names it.
    fn name_slices_by_nodes(&mut self) {
        for node in self.nodes.values_mut() {
            let Some(profile) = node.slices_as_gpus() else { continue };
            for card in &mut node.cards {
                for slice in card.slices.iter_mut().filter(|slice| slice.profile == UNKNOWN_PROFILE) {
                    slice.profile.clone_from(&profile);
                }
                if let Some((known, _)) = self.cards.get_mut(&card.uuid) {
                    known.slices.clone_from(&card.slices);
                }
            }
        }
    }

    /// Nobody holds a cut card whole, whatever its parent's series says.
    fn drop_parents(&mut self, names: &BTreeSet<ProfileName>) {
        let cut = |uuid: &String| self.cards.get(uuid).is_some_and(|(card, _)| card.is_cut());
        for (pod, cards) in &mut self.held {
            let now = self.pods.get(pod);
            let on_slice = now.is_some_and(|now| {
                asked_profile(&now.resource, names).is_some()
                    || self.nodes.get(&now.node).and_then(unread_slices).is_some()
            });
            cards.retain(|uuid| !on_slice && !cut(uuid));
        }
        self.held.retain(|_, cards| !cards.is_empty());
    }

    /// Nodes that do not hand out whole cards or readable slices, one pod each.
    pub(super) fn nodes_today(&self) -> BTreeMap<String, NodeToday> {
        let today = |node: &Node| match node.sharing() {
            Sharing::Whole => None,
            Sharing::TimeSlicing { .. } => Some(NodeToday::SharedCards("time-slicing".to_owned())),
            Sharing::Mps { .. } => Some(NodeToday::SharedCards("MPS".to_owned())),
            Sharing::Mig => match unread_slices(node) {
                Some(profile) => Some(NodeToday::UnreadSlices(profile)),
                None => node.slices_are_shared().then_some(NodeToday::SharedSlices),
            },
        };
        self.nodes.values().filter_map(|node| Some((node.name.clone(), today(node)?))).collect()
    }

    /// What each running pod holds, as far as its readings, its resource or its node tell.
    pub(super) fn held_now(&self, names: &BTreeSet<ProfileName>) -> BTreeMap<PodName, HeldNow> {
        let of = |name: &PodName| {
            let now = self.pods.get(name).filter(|now| now.running)?;
            if let Some(ids) = self.held_slices.get(name) {
                let profiles = ids.iter().filter_map(|id| self.slice(id)).map(|slice| slice.profile.clone());
                return Some(HeldNow::Slice(agreed(&profiles.collect())));
            }
            if let Some(profile) = asked_profile(&now.resource, names) {
                return Some(HeldNow::Slice(profile));
            }
            if self.held.contains_key(name) {
                return Some(HeldNow::Whole);
            }
            self.nodes.get(&now.node).and_then(Node::slices_as_gpus).map(HeldNow::Slice)
        };
        self.pods.keys().filter_map(|name| Some((name.clone(), of(name)?))).collect()
    }

    fn slice(&self, id: &SliceId) -> Option<&Slice> {
        self.cards.get(&id.card)?.0.slices.iter().find(|slice| slice.id == id.id)
    }

    /// Memory above which a reading cannot be true; `catalog` is the whole memory by model.
    pub(super) fn bounds(&self, catalog: &BTreeMap<String, Mib>) -> Bounds {
        // Reserved memory is at most some hundreds of MiB; older drivers count it as used.
        let roomy = |usable: Mib| Mib(usable.0 + usable.0 / 20 + 1_024);
        let mut cards = catalog.clone();
        for (model, memory) in &self.framebuffer {
            // Labels give the smallest of a model, the catalog its usual size: the larger is the bound.
            let bound = cards.entry(model.clone()).or_insert(*memory);
            *bound = (*bound).max(*memory);
        }
        for (model, usable) in &self.used_plus_free {
            let bound = cards.entry(model.clone()).or_insert(roomy(*usable));
            // Labels may be of a smaller card of the same name than the one that was read.
            *bound = (*bound).max(*usable);
        }
        let mut slices: BTreeMap<(String, String), Mib> = BTreeMap::new();
        for (card, _) in self.cards.values() {
            for slice in card.slices.iter().filter(|slice| slice.profile != UNKNOWN_PROFILE) {
                let Some(usable) = slice.usable else { continue };
                let bound = slices.entry((card.model_name.clone(), slice.profile.clone())).or_default();
                *bound = (*bound).max(roomy(usable));
            }
        }
        Bounds { cards, slices }
    }
}

/// The profile of slices that the node hands out as whole GPUs while the exporter shows no instance on it.
fn unread_slices(node: &Node) -> Option<String> {
    node.slices_as_gpus().filter(|_| !node.cards.iter().any(Card::is_cut))
}

/// The instance `id` of a card, new where it was not seen yet.
fn instance<'a>(card: &'a mut Card, id: &str) -> &'a mut Slice {
    let at = card.slices.iter().position(|slice| slice.id == id).unwrap_or_else(|| {
        let new = Slice { id: id.to_owned(), profile: UNKNOWN_PROFILE.to_owned(), ..Slice::default() };
        card.slices.push(new);
        card.slices.len() - 1
    });
    &mut card.slices[at]
}
