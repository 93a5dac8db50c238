use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use slicewright_core::plan::Plan;

use super::{Label, NewPool};
use crate::infra::tests::{plan, scope, tree};
use crate::infra::{Snapshot, edit};

fn case_of(case: &str) -> (Snapshot, Plan) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra/node-groups").join(case);
    let snapshot = Snapshot { files: tree(&folder.join("repo")), ..Snapshot::default() };
    let wanted = serde_json::from_slice(&std::fs::read(folder.join("plan.json")).unwrap()).unwrap();
    (snapshot, plan(&wanted))
}

/// What is left to people in a case, with its text.
fn by_hand(case: &str) -> String {
    let (snapshot, plan) = case_of(case);
    let set = edit(&snapshot, &scope(&json!({})), &plan);
    set.manual.iter().map(|change| change.text.clone()).collect()
}

#[test]
fn a_second_nodepool_is_the_first_one_with_another_name_and_the_label() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra/node-groups/karpenter-beside/repo");
    let first = std::fs::read_to_string(folder.join("karpenter/gpu.yaml")).unwrap();
    let expected = first
        .replace("# GPU nodes of the search team\n", "---\n")
        .replace("name: gpu-a100", "name: gpu-a100-mig")
        .replace("# who pays\n", "# who pays\n        nvidia.com/mig.config: all-2g.10gb\n");
    assert_eq!(by_hand("karpenter-beside"), expected);
}

#[test]
fn a_second_group_in_terraform_is_a_copy_under_another_name() {
    insta::assert_snapshot!(by_hand("aks-beside"), @r#"
    resource "azurerm_kubernetes_cluster_node_pool" "gpu_mig" {
      name                  = "gpua100mig"
      kubernetes_cluster_id = azurerm_kubernetes_cluster.main.id
      vm_size               = "Standard_ND96asr_v4"
      auto_scaling_enabled  = true
      min_count             = 0
      max_count             = 4
      node_labels           = { team = "search", "nvidia.com/mig.config" = "all-2g.10gb" }
      node_taints           = ["sku=gpu:NoSchedule"]
    }
    "#);
    insta::assert_snapshot!(by_hand("eks-module-beside"), @r#"
    # beside the group at line 15
    gpu-a100-mig = {
      name           = "gpu-a100-mig"
      instance_types = ["p4d.24xlarge"]
      ami_type       = "AL2023_x86_64_NVIDIA"
      min_size       = 0 # nights
      max_size       = 8

      labels = {
        team = "search"

        "nvidia.com/mig.config" = "all-2g.10gb"
      }
    }
    "#);
    let eks = by_hand("eks-beside");
    assert!(eks.starts_with("resource \"aws_eks_node_group\" \"gpu_mig\" {"), "{eks}");
    assert!(eks.contains("node_group_name = \"gpu-a100-mig\" # the name"), "{eks}");
}

#[test]
fn what_is_refused_comes_with_the_text_of_its_own_language() {
    insta::assert_snapshot!(by_hand("eks-ignore-changes"), @r#"
    labels = {
      "nvidia.com/mig.config" = "all-2g.10gb"
    }
    "#);
    insta::assert_snapshot!(by_hand("cluster-api-topology-that-nobody-copies"), @r"
    # in `gpu` of the Cluster's `spec.topology.workers`
    metadata:
      labels:
        nvidia.com/mig.config: all-2g.10gb
    # and, where it is not there yet, an argument of Cluster API's controller
    --additional-sync-machine-labels=nvidia.com/mig.config
    ");
    insta::assert_snapshot!(by_hand("cluster-api-topology-beside"), @r"
    # a further entry of `machineDeployments`
    - class: gpu-worker
      name: gpu-mig
      replicas: 4 # two racks
      metadata:
        labels:
          nvidia.com/mig.config: all-2g.10gb
      variables:
        overrides:
          - name: flavour
            value: dgx
    ");
    insta::assert_snapshot!(by_hand("cluster-api-machine-pool"), @r"
    # the kubelet of these machines must be started with
    --node-labels=nvidia.com/mig.config=all-2g.10gb
    ");
    insta::assert_snapshot!(by_hand("cluster-api-beside"), @r#"
    # copies of MachineDeployment `dc1-gpu` and of its KubeadmConfigTemplate, both named `dc1-gpu-mig`; in the template
    kubeletExtraArgs:
      node-labels: "nvidia.com/mig.config=all-2g.10gb"
    "#);
}

#[test]
fn a_node_pool_that_is_left_to_people_comes_as_the_text_to_paste() {
    let first = |case: &str| {
        let (snapshot, plan) = case_of(case);
        let set = edit(&snapshot, &scope(&json!({})), &plan);
        set.manual.iter().find(|change| change.what.starts_with("Make the node pool")).unwrap().text.clone()
    };
    insta::assert_snapshot!(first("gke-partition-module"), @r#"
    # beside the pool at line 5, in `node_pools`; the module's maps with labels, taints and scopes need the name too
        {
          name              = "gpu-a100-mig-2g"
          machine_type      = "a2-highgpu-1g"
          accelerator_count = 1
          accelerator_type  = "nvidia-tesla-a100"
          gpu_partition_size = "2g.10gb"
        },
    "#);
    insta::assert_snapshot!(first("gke-partition-for-each"), @r#"
    # a resource `google_container_node_pool` like the pool at line 2, named `gpu-a100-mig-2g`, with
    node_config {
      guest_accelerator {
        gpu_partition_size = "2g.10gb"
      }
    }
    "#);
    insta::assert_snapshot!(first("aks-partition-default-pool"), @r#"
    # a resource `azurerm_kubernetes_cluster_node_pool` like the pool at line 4, named `gpua100mig2g`, with
    gpu_instance = "MIG2g"
    "#);
    insta::assert_snapshot!(
        first("gke-partition-not-declared"),
        @"# a copy of GKE node pool `gpu-a100` named `gpu-a100-mig-2g`, with 3 slices `2g.10gb` on each card"
    );
}

/// Cases whose files are damaged below: one of each carrier.
const CASES: &[&str] = &[
    "karpenter",
    "karpenter-flow-style",
    "karpenter-beside",
    "karpenter-anchor",
    "nfd-rule",
    "cluster-api",
    "cluster-api-listed-options",
    "cluster-api-topology",
    "eks-module",
    "gke-module",
    "aks",
    "gke-partition",
    "gke-partition-beside-whole-cards",
    "aks-partition-single",
    "gke-time-sharing",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn damaged_declarations_are_edited_once_or_left_to_people(
        case in prop::sample::select(CASES),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        n in 0_usize..24,
        with in prop_oneof![prop::collection::vec(any::<u8>(), 0..6), "[ \\n:{}\"=&*#|>,-]{0,6}".prop_map(String::into_bytes)],
    ) {
        let (mut snapshot, plan) = case_of(case);
        let path = which.get(&snapshot.files.keys().cloned().collect::<Vec<_>>()).clone();
        let bytes = snapshot.files.get_mut(&path).unwrap();
        let at = at.index(bytes.len() + 1);
        let end = (at + n).min(bytes.len());
        bytes.splice(at..end, with);
        let scope = scope(&json!({}));
        let set = edit(&snapshot, &scope, &plan);
        prop_assert_eq!(&set, &edit(&snapshot, &scope, &plan));
        let name = |change| {
            Label::of(change).map(|label| label.value).or_else(|| Some(NewPool::of(change)?.name))
        };
        let wanted = plan.changes.iter().find_map(name).unwrap();
        let by_hand = set.manual.iter().any(|change| change.what.contains(wanted));
        let written = snapshot
            .files
            .iter()
            .map(|(path, old)| set.files.get(path).unwrap_or(old))
            .any(|text| String::from_utf8_lossy(text).contains(wanted));
        prop_assert!(by_hand || written, "it is neither made nor left to people");
        let mut edited = snapshot.clone();
        edited.files.extend(set.files);
        let again = edit(&edited, &scope, &plan);
        prop_assert!(again.files.is_empty(), "{:?}", again.files.keys());
    }
}
